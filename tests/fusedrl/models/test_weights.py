from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.models.architecture import Architecture
from fusedrl.models.hf_folder import HfFolder
from fusedrl.models.weights import from_locals, rule_for, shapes, to_local
from tests.distributed.model_jobs import TINY
from tests.fusedrl.models.conftest import FAMILIES

PADDED = 64
WIDE = replace(TINY, num_heads=8, num_kv_heads=4, head_dim=6, ffn_hidden_size=40)
SOURCES = {
    "rows": ((40, 32),),
    "columns": ((32, 40),),
    "whole": ((32,),),
    "vocabulary": ((50, 32),),
    "gate_up": ((40, 32), (40, 32)),
    "qkv": ((48, 32), (24, 32), (24, 32)),
    "qkv bias": ((48,), (24,), (24,)),
}


@given(st.sampled_from(sorted(SOURCES)), st.sampled_from([1, 2, 4]))
def test_shards_put_together_are_bit_equal_to_the_whole(name: str, tp: int) -> None:
    kind = name.split()[0]
    whole = tuple(torch.randn(shape) for shape in SOURCES[name])
    shards = [to_local(kind, whole, arch=WIDE, tp_rank=rank, tp_size=tp, padded_vocab=PADDED) for rank in range(tp)]
    for before, after in zip(whole, from_locals(kind, shards, arch=WIDE), strict=True):
        assert torch.equal(before, after)


def test_a_group_holds_its_query_heads_then_key_then_value() -> None:
    q = torch.arange(8).repeat_interleave(6)
    k, v = 100 + torch.arange(4).repeat_interleave(6), 200 + torch.arange(4).repeat_interleave(6)
    local = to_local("qkv", (q, k, v), arch=WIDE, tp_rank=1, tp_size=2, padded_vocab=PADDED)
    assert local.view(-1, 6)[:, 0].tolist() == [4, 5, 102, 202, 6, 7, 103, 203]


def test_gate_and_up_rows_of_a_rank_lie_together() -> None:
    gate, up = torch.arange(4), 10 + torch.arange(4)
    local = to_local("gate_up", (gate, up), arch=WIDE, tp_rank=1, tp_size=2, padded_vocab=PADDED)
    assert local.tolist() == [2, 3, 12, 13]


def test_vocabulary_padding_is_zero_and_last() -> None:
    local = to_local("vocabulary", (torch.ones(50, 2),), arch=WIDE, tp_rank=1, tp_size=2, padded_vocab=PADDED)
    assert local[:, 0].tolist() == [1.0] * 18 + [0.0] * 14


@pytest.mark.parametrize("family", FAMILIES)
def test_names_and_shapes_are_transformers_own(folders: dict[str, Path], family: str) -> None:
    found = {name: tuple(tensor.shape) for name, tensor in HfFolder(folders[family]).items()}
    assert dict(shapes(Architecture.from_folder(folders[family]), head="lm")) == found


def test_value_checkpoint_has_transformers_names(value_folder: Path) -> None:
    assert {name for name, _ in shapes(Architecture.from_folder(value_folder), head="value")} == set(
        HfFolder(value_folder)
    )


def test_layers_of_later_stages_are_counted_on() -> None:
    rule = rule_for("decoder.layers.1.mlp.linear_fc1.weight", arch=TINY, layer_offset=2, head="lm")
    assert rule.sources == ("model.layers.3.mlp.gate_proj.weight", "model.layers.3.mlp.up_proj.weight")


def test_each_expert_is_a_network_of_its_own() -> None:
    name, source = "decoder.layers.1.mlp.experts.local_experts.3.linear_fc", "model.layers.5.mlp.experts.3."
    first, second = (rule_for(f"{name}{i}.weight", arch=TINY, layer_offset=4, head="lm") for i in (1, 2))
    assert (first.kind, second.kind) == ("gate_up", "columns")
    assert first.sources == (f"{source}gate_proj.weight", f"{source}up_proj.weight")
    assert second.sources == (f"{source}down_proj.weight",)


def test_norms_fused_by_transformer_engine_are_the_same_weights() -> None:
    for fused, plain in (
        ("self_attention.linear_qkv.layer_norm_weight", "input_layernorm.weight"),
        ("mlp.linear_fc1.layer_norm_weight", "pre_mlp_layernorm.weight"),
    ):
        rules = [rule_for(f"decoder.layers.0.{n}", arch=TINY, layer_offset=0, head="lm") for n in (fused, plain)]
        assert rules[0].sources == rules[1].sources
        assert rules[0].kind == rules[1].kind == "whole"


@pytest.mark.parametrize(
    ("head", "tied", "source"), [("lm", False, "lm_head"), ("lm", True, "model.embed_tokens"), ("value", True, "score")]
)
def test_output_layer_follows_head_and_tying(head: str, tied: bool, source: str) -> None:
    rule = rule_for("output_layer.weight", arch=replace(TINY, tied=tied), layer_offset=0, head=head)
    assert rule.sources == (f"{source}.weight",)


@pytest.mark.parametrize("name", ["decoder.layers.0.mlp.shared.weight", "decoder.layers.0.input_layernorm.scale", "x"])
def test_unknown_parameter_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="no Hugging Face weight is known"):
        rule_for(name, arch=TINY, layer_offset=0, head="lm")
