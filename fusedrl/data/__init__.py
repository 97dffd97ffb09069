"""Where rows come from and how they become tokens.

rows      Row: prompt, data_source, ground_truth, extra_info      files      jsonl with verl's columns
tasks     reasoning-gym's generated tasks, split into train and held-out
tokenizer a Hugging Face tokenizer used one way everywhere        characters a tokenizer of single characters
sampler   seeded, resumable order of rows                         lengths    rows that are too long
json_object  a JSON file's keys by type
sft       prompt and answer as one row, labels on the answer
"""
