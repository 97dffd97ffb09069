from typing import Any

import pytest

from fusedrl.data.json_object import JsonObject
from fusedrl.models.experts import Experts, read_experts

CONFIG: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 6,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}


def read(**changes: Any) -> Experts | None:
    return read_experts(JsonObject.of(CONFIG | changes, where="config.json"))


def test_the_number_of_experts_has_two_names() -> None:
    expected = Experts(count=8, per_token=2, ffn_hidden_size=24, normalized=False)
    assert read() == read(num_experts=None, num_local_experts=8) == expected


def test_dense_models_have_none() -> None:
    assert read_experts(JsonObject.of({"model_type": "qwen3", "num_experts": 0}, where="config.json")) is None


@pytest.mark.parametrize(
    ("changes", "dense"),
    [
        ({}, ()),
        ({"decoder_sparse_step": 2}, (0, 2, 4)),
        ({"decoder_sparse_step": 3, "mlp_only_layers": [5]}, (0, 1, 3, 4, 5)),
    ],
)
def test_dense_layers_are_those_of_transformers(changes: dict[str, Any], dense: tuple[int, ...]) -> None:
    import transformers

    found = read(**changes)
    assert found is not None
    assert found.dense_layers == dense
    small = {"hidden_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 9}
    model = transformers.Qwen3MoeModel(
        transformers.Qwen3MoeConfig(**(CONFIG | small | {"intermediate_size": 8} | changes))
    )
    assert tuple(i for i, layer in enumerate(model.layers) if not hasattr(layer.mlp, "experts")) == dense


def test_what_is_written_is_what_was_read() -> None:
    experts = read(norm_topk_prob=True, mlp_only_layers=[1], decoder_sparse_step=2)
    assert experts is not None
    assert read(**experts.to_config()) == experts


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_experts": None}, "num_experts is missing"),
        ({"num_experts_per_tok": 9}, "num_experts_per_tok=9 exceeds num_experts=8"),
        ({"moe_intermediate_size": 0}, "moe_intermediate_size=0"),
        ({"mlp_only_layers": [0, 1, 2, 3, 4, 5]}, "leave no layer with experts"),
        (
            {"output_router_logits": True, "router_aux_loss_coef": 0.01},
            "adds router_aux_loss_coef=0.01 times a balancing",
        ),
        ({"model_type": "mixtral"}, "num_experts=8: of the mixtures of experts, qwen3_moe alone"),
        ({"model_type": "qwen2_moe"}, "num_experts=8: of the mixtures of experts, qwen3_moe alone"),
    ],
)
def test_other_mixtures_are_refused_by_key(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(**changes)
