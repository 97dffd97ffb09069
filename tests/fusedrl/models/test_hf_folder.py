import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fusedrl.models.hf_folder import HfFolder


def test_tensors_of_all_files_of_an_index_are_found(tmp_path: Path) -> None:
    for name in "ab":
        save_file({name: torch.tensor([float(ord(name))])}, tmp_path / f"{name}.safetensors")
    weight_map = {name: f"{name}.safetensors" for name in "ab"}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert {name: float(tensor) for name, tensor in HfFolder(tmp_path).items()} == {"a": 97.0, "b": 98.0}


def test_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "a.safetensors"}}))
    with pytest.raises(ValueError, match=r"a\.safetensors is missing"):
        HfFolder(tmp_path)


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="safetensors files only"):
        HfFolder(tmp_path)


@pytest.mark.parametrize("content", ["", "[1]", '{"weight_map": ["a"]}', '{"weight_map": {"a": 3}}'])
def test_an_index_that_is_malformed_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ValueError, match=r"model\.safetensors\.index\.json: "):
        HfFolder(tmp_path)
