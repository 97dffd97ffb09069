from types import SimpleNamespace
from typing import Any

import pytest

from fusedrl.config.check_experts import check_experts
from fusedrl.config.schema import MegatronConfig

DENSE, EXPERTS = SimpleNamespace(experts=None), SimpleNamespace(experts="some")


def problems(model: Any = EXPERTS, **megatron: Any) -> list[str]:
    return list(check_experts({"actor": MegatronConfig(**megatron)}, {} if model is None else {"actor": model}))


@pytest.mark.parametrize(
    ("megatron", "message"),
    [
        ({"expert_model_parallel_size": 2}, "actor.expert_model_parallel_size=2: "),
        ({"tensor_model_parallel_size": 2}, "actor.sequence_parallel=false with actor.tensor_model_parallel_size=2: "),
        ({"transformer_impl": "transformer_engine"}, "actor.transformer_impl=transformer_engine: "),
    ],
)
def test_layouts_that_experts_do_not_have_are_named(megatron: dict[str, Any], message: str) -> None:
    (line,) = problems(**megatron)
    assert line.startswith(message)


def test_layouts_that_experts_have_are_accepted() -> None:
    assert problems() == problems(tensor_model_parallel_size=2, sequence_parallel=True, context_parallel_size=2) == []


def test_frozen_models_need_not_share_tokens() -> None:
    megatron = MegatronConfig(tensor_model_parallel_size=2)
    assert list(check_experts({"ref": megatron}, {"ref": EXPERTS}, frozen=["ref"])) == []


def test_models_without_experts_and_unknown_ones_are_not_asked() -> None:
    for model in (DENSE, None):
        assert problems(model, tensor_model_parallel_size=2, transformer_impl="transformer_engine") == []
    assert problems(DENSE, expert_model_parallel_size=2)  # of no model
