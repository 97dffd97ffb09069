"""A model that was read from a quantised file is saved as a plain one, with the same weights."""

import json
from pathlib import Path

import torch

from fusedrl.data.characters import write_character_tokenizer
from fusedrl.models.from_gguf import save
from fusedrl.models.hf_folder import HfFolder


def test_the_folder_is_plain_float32_and_reads_back(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, set_seed

    set_seed(0)
    size = write_character_tokenizer(tmp_path / "tokenizer", "0123456789+=")
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": True}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=size, hidden_size=16, num_hidden_layers=1, **heads)).bfloat16()
    model.config.quantization_config = {"quant_method": "gguf", "gguf_file": "some.gguf"}
    save(model, tokenizer=AutoTokenizer.from_pretrained(tmp_path / "tokenizer"), folder=tmp_path / "saved")
    config = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert "quantization_config" not in config
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {p.name for p in (tmp_path / "saved").iterdir()}
    assert "model.layers.0.mlp.up_proj.weight" in HfFolder(tmp_path / "saved")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "saved").state_dict()
    for name, tensor in model.state_dict().items():
        assert again[name].dtype == torch.float32
        assert torch.equal(again[name], tensor.float())
