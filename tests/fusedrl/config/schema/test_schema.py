"""Properties that hold for every key of every schema."""

import dataclasses

import pytest
from omegaconf import OmegaConf

from fusedrl.config.check_values import check_values
from fusedrl.config.keys import groups, walk
from fusedrl.config.schema import SCHEMAS, PPOConfig

commands = pytest.mark.parametrize("command", SCHEMAS)


@commands
def test_every_key_and_group_has_a_help(command: str) -> None:
    helps = {key.name: key.help for key in walk(SCHEMAS[command])} | dict(groups(SCHEMAS[command]))
    assert [name for name, help in helps.items() if len(help) < 3 or help.endswith(".")] == []


@commands
def test_every_default_is_within_its_own_limits(command: str) -> None:
    assert check_values(SCHEMAS[command]()) == []


@commands
def test_hydra_takes_every_schema(command: str) -> None:
    assert OmegaConf.is_config(OmegaConf.structured(SCHEMAS[command]))


def test_mini_batch_help_says_that_it_counts_samples() -> None:
    helps = {key.name: key.help for key in walk(PPOConfig)}
    assert helps["actor_rollout_ref.actor.ppo_mini_batch_size"].startswith("SAMPLES")
    assert helps["critic.ppo_mini_batch_size"].startswith("SAMPLES")


def test_a_configuration_cannot_be_changed_after_it_was_made() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        PPOConfig().trainer.seed = 3  # type: ignore[misc]


def test_instances_share_no_lists() -> None:
    first, second = PPOConfig(), PPOConfig()
    first.data.train_files.append("x")
    assert second.data.train_files == []
