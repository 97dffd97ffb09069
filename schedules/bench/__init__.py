"""The runs behind the tables of docs/results.md: one file a table, each row one solve, kept in a JSON-lines file.

python -m schedules.bench published --out published.jsonl     # run what the file lacks, row by row
python -m schedules.bench report published.jsonl              # the table as Markdown
"""
