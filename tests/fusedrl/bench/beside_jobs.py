"""The comparison with Hugging Face in a world of one rank, for test_beside_hf.py."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from fusedrl.bench import beside_hf
from fusedrl.data.characters import write_character_tokenizer


def compare_small_model(folder: str) -> dict[str, list[dict[str, Any]]]:
    """What is told of a small model with tied embeddings, and of one whose weights we read with an error."""
    from transformers import LlamaConfig, LlamaForCausalLM, set_seed

    set_seed(0)
    shape: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "initializer_range": 0.3, "tie_word_embeddings": True}
    size = write_character_tokenizer(Path(folder), "0123456789+=")
    LlamaForCausalLM(LlamaConfig(vocab_size=size, **shape, **heads)).save_pretrained(folder)

    def told() -> list[dict[str, Any]]:
        return [asdict(each) for each in beside_hf.compare(folder, ["1+2=", "30+4="], new=6, chat=False)]

    right, load = told(), beside_hf.load_hf
    beside_hf.load_hf = _load_with_an_error
    try:
        return {"right": right, "wrong": told()}
    finally:
        beside_hf.load_hf = load


def _load_with_an_error(model: Any, folder: str) -> None:
    path = Path(folder) / "model.safetensors"
    whole = load_file(path)
    save_file(whole | {"model.norm.weight": -whole["model.norm.weight"]}, path, metadata={"format": "pt"})
    from fusedrl.models.hf_import import load_hf

    load_hf(model, folder)
    save_file(whole, path, metadata={"format": "pt"})
