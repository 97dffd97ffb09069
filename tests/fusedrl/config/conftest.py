"""Configurations and model numbers that the checks are tried on."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from fusedrl.config.load import load
from fusedrl.config.schema import PPOConfig, RMConfig, SFTConfig


@dataclass(frozen=True)
class Numbers:
    """A model as the checks see it."""

    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 2
    ffn_hidden_size: int = 256
    max_position: int = 64


@pytest.fixture(scope="session")
def numbers() -> Numbers:
    return Numbers()


# sizes that messages are tried on, whatever the experiment's recipe is
SIZES = (
    "data.train_batch_size=64",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=256",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
    "actor_rollout_ref.actor.ppo_epochs=1",
)


@cache
def ppo(*overrides: str) -> PPOConfig:
    """The arithmetic experiment at fixed sizes, with changes."""
    return load("ppo", ["experiment=arithmetic", *SIZES, *overrides])


@cache
def sft(*overrides: str) -> SFTConfig:
    return load("sft", ["experiment=arithmetic", *overrides])


@cache
def rm(*overrides: str) -> RMConfig:
    return load("reward_model", ["experiment=arithmetic", *overrides])


def changed(config: Any, values: dict[str, Any]) -> Any:
    """The configuration with other values at dotted keys; quicker than composing it anew."""
    for name, value in values.items():
        first, _, rest = name.partition(".")
        inner = changed(getattr(config, first), {rest: value}) if rest else value
        config = replace(config, **{first: inner})
    return config
