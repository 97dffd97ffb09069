"""Models that the engine would compute wrongly are refused by name."""

from types import SimpleNamespace
from typing import Any

import pytest

from fusedrl.rollout.support import check_supported


def model(*, config: dict[str, Any] | None = None, **changes: Any) -> SimpleNamespace:
    settings = {
        "normalization": "RMSNorm",
        "num_moe_experts": None,
        "rotary_interleaved": False,
        "tensor_model_parallel_size": 2,
        "num_query_groups": 2,
        **(config or {}),
    }
    parts = {"position_embedding_type": "rope", "rotary_percent": 1.0}
    return SimpleNamespace(config=SimpleNamespace(**settings), **{**parts, **changes})


def test_rope_models_with_and_without_experts_are_supported():
    check_supported(model())
    check_supported(model(config={"num_moe_experts": 8, "moe_router_score_function": "softmax"}))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (model(rotary_percent=0.5), "rotary_percent=0.5"),
        (model(position_embedding_type="none"), "position_embedding_type=none"),
        (model(config={"normalization": "LayerNorm"}), "normalization=LayerNorm"),
        (model(config={"num_moe_experts": 8, "moe_router_score_function": "sigmoid"}), "score_function=sigmoid, only"),
        (
            model(config={"num_moe_experts": 8, "moe_shared_expert_intermediate_size": 4}),
            "intermediate_size=4, only None",
        ),
        (model(config={"window_size": (128, 0)}), "sliding-window"),
        (model(config={"tensor_model_parallel_size": 4}), "tensor_model_parallel_size=4 exceeds num_query_groups=2"),
    ],
)
def test_others_are_refused_by_name(found, said):
    with pytest.raises(ValueError, match=said):
        check_supported(found)
