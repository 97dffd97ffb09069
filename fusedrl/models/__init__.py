"""Megatron GPTModels from Hugging Face checkpoint folders: build, load, train, export, log-probabilities."""
