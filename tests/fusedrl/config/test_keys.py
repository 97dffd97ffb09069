"""A schema as a table, and the nearest key to a wrong one."""

import pytest

from fusedrl.config.keys import groups, suggest, walk
from fusedrl.config.schema import SCHEMAS, PPOConfig


def test_walk_names_types_as_a_user_reads_them() -> None:
    types = {key.name: key.type_name for key in walk(PPOConfig)}
    assert types["schedule.memory_cap"] == "float or null"
    assert types["data.train_files"] == "list of str"
    assert types["data.task.config"] == "dict"
    assert types["trainer.seed"] == "int"


def test_only_dicts_are_open() -> None:
    assert [key.name for key in walk(PPOConfig) if key.open] == ["custom_reward_function.weights", "data.task.config"]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("critic.optim.lrr", "critic.optim.lr"),
        ("actor.optim.lr", "actor_rollout_ref.actor.optim.lr"),
        ("actor.ppo_mini_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"),
        ("trainer.total_training_step", "trainer.total_training_steps"),
        ("algorithm.kl_ctrl.coef", "algorithm.kl_ctrl.kl_coef"),
        ("rollout.n", "actor_rollout_ref.rollout.n"),
        ("critc", "critic"),
        ("qqqqqq", None),
    ],
)
def test_suggest_finds_the_nearest_key(wrong: str, right: str | None) -> None:
    assert suggest(PPOConfig, wrong) == right


@pytest.mark.parametrize("command", SCHEMAS)
def test_suggest_gives_a_valid_key_back_unchanged(command: str) -> None:
    schema = SCHEMAS[command]
    names = [key.name for key in walk(schema)] + [name for name, _ in groups(schema)]
    assert [suggest(schema, name) for name in names] == names
