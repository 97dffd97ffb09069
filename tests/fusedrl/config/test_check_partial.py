"""Partial rollout with what it needs is let through; what is missing or cannot be had is told with the key to set."""

from typing import Any

from fusedrl.config.check_partial import check_partial
from tests.fusedrl.config.conftest import changed, ppo

KEY = "actor_rollout_ref.rollout"


def found(**values: Any) -> list[str]:
    keys = {f"{KEY}.{name}": value for name, value in values.items()}
    return list(check_partial(changed(ppo(), {"data.train_batch_size": 8, **keys})))


def test_off_or_with_prompts_to_carry_it_is_let_through() -> None:
    assert found() == []
    assert found(partial_rollout=True, over_sampling_batch_size=9) == []
    assert found(partial_rollout=True, over_sampling_batch_size=9, name="vllm") == []


def test_without_prompts_to_carry_it_says_how_many() -> None:
    assert found(partial_rollout=True) == [
        f"{KEY}.partial_rollout=true: give {KEY}.over_sampling_batch_size, the prompts under way at once, more than "
        "data.train_batch_size=8"
    ]
    (line,) = found(partial_rollout=True, over_sampling_batch_size=8)
    assert line.startswith(f"{KEY}.over_sampling_batch_size=8 leaves none to carry on")
    (line,) = found(over_sampling_batch_size=20)
    assert line == f"{KEY}.over_sampling_batch_size=20 is not used; set {KEY}.partial_rollout=true"


def test_a_stream_whose_pace_would_choose_the_samples_is_refused() -> None:
    (line,) = found(partial_rollout=True, over_sampling_batch_size=9, inference="instances")
    assert line.startswith(f"{KEY}.partial_rollout=true with {KEY}.inference=instances: which samples finish first")
