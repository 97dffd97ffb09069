"""Parameters of a model by rank."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from fusedrl.models.experts import Experts
from fusedrl.plan.sizes import ModelSizes, layer_parameters, read_model
from schedules.transformer.shapes import SHAPES


def test_published_models_have_the_parameters_of_their_shapes() -> None:
    sheets = {"llama2_70b": "llama_70b"}
    for name, shape in SHAPES.items():
        assert read_model(sheets.get(name, name)).parameters() == shape.parameters


def test_a_folder_is_read_as_a_sheet_is(tmp_path: Path) -> None:
    sheet = read_model("tiny")
    (tmp_path / "config.json").write_text(json.dumps(sheet.arch.to_config()))
    assert read_model(str(tmp_path)).arch == sheet.arch
    assert read_model(str(tmp_path)).name == tmp_path.name
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(sheet.arch.to_config()))
    assert read_model(str(tmp_path / "mine.yaml")) == replace(sheet, name="mine")


def test_stages_together_are_the_model_and_tied_tables_are_held_by_both_ends() -> None:
    model = read_model("tiny")
    cut = [
        model.stage_parameters(range(1), first=True, last=False),
        model.stage_parameters(range(1, 4), first=False, last=True),
    ]
    assert sum(cut) == model.parameters()
    tied = ModelSizes("tied", replace(model.arch, tied=True))
    table = 256 * 32
    assert model.parameters() - tied.parameters() == table
    assert tied.stage_parameters(range(1, 4), first=False, last=True) == cut[1]
    value = tied.with_head("value")
    assert value.parameters() - tied.parameters() == 32  # the value head alone


def test_tensor_parallelism_divides_all_but_norms_and_routers() -> None:
    arch = read_model("tiny").arch
    assert layer_parameters(arch) == 32 * (4 * 8 + 2 * 2 * 8) + 32 * 32 + 3 * 32 * 64 + 2 * 32
    assert layer_parameters(arch, tp=2) == (layer_parameters(arch) - 64) // 2 + 64
    experts = Experts(count=8, per_token=2, ffn_hidden_size=16)
    moe = replace(arch, family="qwen3_moe", experts=experts)
    assert layer_parameters(moe, tp=2, with_experts=True) == (
        (32 * (4 * 8 + 2 * 2 * 8) + 32 * 32 + 8 * 3 * 32 * 16) // 2 + 2 * 32 + 2 * 8 + 8 * 32
    )


def test_biases_of_queries_keys_and_values_are_divided_too() -> None:
    plain = read_model("tiny").arch
    biased = replace(plain, family="qwen2", qkv_bias=True)
    assert layer_parameters(biased) - layer_parameters(plain) == (4 + 2 * 2) * 8
    assert layer_parameters(biased, tp=2) - layer_parameters(plain, tp=2) == (4 + 2 * 2) * 8 // 2


def test_tensor_sizes_divide_heads_and_mlp() -> None:
    assert read_model("llama_33b").tensor_sizes(8) == (1, 2, 4)
    tiny = read_model("tiny")
    assert tiny.tensor_sizes(8) == (1, 2)
    experts = Experts(count=8, per_token=2, ffn_hidden_size=15)
    assert ModelSizes("moe", replace(tiny.arch, family="qwen3_moe", experts=experts)).tensor_sizes(8) == (1,)


def test_an_unknown_sheet_names_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"model=llama_7: there is no such sheet; did you mean llama_7b"):
        read_model("llama_7")
