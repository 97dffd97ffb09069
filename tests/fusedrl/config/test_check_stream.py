"""What streaming needs and what cannot be had with it is told with the key to set; what fits is let through."""

from typing import Any

import pytest

from fusedrl.config.check_stream import check_stream
from tests.fusedrl.config.conftest import Numbers, changed, ppo

KEY = "actor_rollout_ref.rollout"


def found(*, world: int = 4, **values: Any) -> list[str]:
    config = changed(ppo(), {f"{KEY}.{name}": value for name, value in values.items()})
    models = {"actor": Numbers(), "critic": Numbers(), "reward": Numbers(num_heads=6, num_kv_heads=3)}
    return list(check_stream(config, world=world, models=models))


def test_streaming_is_let_through_with_inference_on_the_instances() -> None:
    assert found() == []
    assert found(inference="instances") == []
    assert found(inference="instances", streaming=True) == []
    assert found(inference="instances", streaming=True, migration_threshold=9, migration_destinations=3) == []


def test_streaming_without_them_says_what_to_set() -> None:
    assert found(streaming=True) == [
        f"{KEY}.streaming=true: finished samples are read on the generation engines, and {KEY}.inference=pipeline; "
        f"set {KEY}.inference=instances"
    ]


@pytest.mark.parametrize(
    ("values", "start"),
    [
        (
            {"name": "vllm"},
            f"{KEY}.inference=instances reads with the built-in engine's model; {KEY}.name=vllm",
        ),
        ({"pipeline_model_parallel_size": 2}, f"{KEY}.inference=instances: an engine of one stage reads samples, and "),
        (
            {"tensor_model_parallel_size": 2},
            f"{KEY}.tensor_model_parallel_size (reward)=2 does not divide the",
        ),
        ({"migration_threshold": 5}, f"{KEY}.migration_threshold=5 alone; give {KEY}.migration_destinations too"),
        ({"migration_destinations": 2}, f"{KEY}.migration_destinations=2 alone; give {KEY}.migration_threshold too"),
        (
            {"migration_threshold": 5, "migration_destinations": 4},
            f"{KEY}.migration_destinations=4 of 4 engines: nothing would move",
        ),
    ],
)
def test_what_does_not_fit_is_told(values: dict[str, Any], start: str) -> None:
    (line,) = found(inference="instances", **values)
    assert line.startswith(start)


def test_frozen_models_that_are_copies_alone_cannot_be_offloaded() -> None:
    keys = ("actor_rollout_ref.ref.megatron.param_offload", "reward_model.megatron.param_offload")
    for inference, told in (("instances", [*keys]), ("pipeline", [])):
        config = changed(ppo(), {f"{KEY}.inference": inference, **dict.fromkeys(keys, True)})
        lines = list(check_stream(config, world=4, models={}))
        assert [line.partition("=")[0] for line in lines] == told
        assert all(f"{KEY}.offload_copies" in line for line in lines)


def test_another_engine_and_stages_serve_the_pipelines_inference() -> None:
    assert found(name="vllm") == []
    assert found(pipeline_model_parallel_size=2) == []
