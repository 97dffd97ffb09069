"""Composition: order of layers, typed results, and nothing left behind on disk."""

from pathlib import Path

import pytest

from fusedrl.config.errors import ConfigError
from fusedrl.config.load import CONFIGS, from_yaml, load, to_yaml
from fusedrl.config.schema import SCHEMAS
from tests.fusedrl.config.conftest import ppo, sft

MODEL = "actor_rollout_ref.model.path=m"


def test_arguments_win_over_experiment_over_group_over_schema() -> None:
    config = ppo("trainer.test_freq=3")
    assert config.trainer.test_freq == 3  # argument; the experiment has another
    assert config.actor_rollout_ref.actor.megatron.pipeline_model_parallel_size == 2  # experiment's group
    assert config.data.task.name == "chain_sum"
    assert config.algorithm.gamma == 1.0  # schema


def test_keys_that_follow_another_follow_its_changes_until_set() -> None:
    config = ppo("actor_rollout_ref.actor.ppo_epochs=3", "parallel=tp2", "critic.model.path=other")
    assert config.critic.ppo_epochs == 3
    assert config.critic.megatron == config.actor_rollout_ref.actor.megatron
    assert config.actor_rollout_ref.ref.megatron.tensor_model_parallel_size == 2
    assert (config.critic.model.path, config.actor_rollout_ref.model.path) == (
        "other",
        "runs/arithmetic_sft/huggingface",
    )


def test_experiments_of_sft_have_their_own_folder() -> None:
    assert sft().trainer.experiment_name == "arithmetic_sft"
    assert ppo().trainer.experiment_name == "arithmetic"


def test_values_take_the_types_of_the_schema() -> None:
    config = load("ppo", [MODEL, "critic.optim.lr=1", "schedule.memory_cap=12", "data.train_files=[a,b]"])
    assert isinstance(config.critic.optim.lr, float)
    assert config.schedule.memory_cap == 12.0
    assert config.data.train_files == ["a", "b"]


def test_a_dict_takes_any_keys_with_or_without_plus() -> None:
    config = load("ppo", [MODEL, "data.task.config.a=1", "+data.task.config.b=[2,3]"])
    assert config.data.task.config == {"a": 1, "b": [2, 3]}


def test_own_config_folder_adds_experiments(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\ntrainer: {seed: 5}\n")
    config = load("ppo", ["experiment=mine", MODEL], config_dir=tmp_path)
    assert config.trainer.seed == 5


def test_own_config_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--config-dir .*nowhere: there is no such folder"):
        load("ppo", [MODEL], config_dir=tmp_path / "nowhere")


def test_loading_leaves_no_files_and_no_changed_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    load("ppo", [MODEL])
    assert list(tmp_path.iterdir()) == []
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize("command", SCHEMAS)
def test_saved_yaml_reads_back_as_the_same_configuration(command: str) -> None:
    config = load(command, ["experiment=arithmetic"])
    assert from_yaml(to_yaml(config), schema=SCHEMAS[command]) == config


def test_saved_yaml_holds_no_references() -> None:
    assert "${" not in to_yaml(ppo())


@pytest.mark.parametrize("command", SCHEMAS)
def test_every_experiment_that_comes_with_the_package_loads(command: str) -> None:
    folder = CONFIGS / "experiment" / ("" if command == "ppo" else command)
    for path in folder.glob("*.yaml"):
        load(command, [f"experiment={path.stem}"])


@pytest.mark.parametrize("group", ["parallel", "rollout", "algorithm", "data"])
def test_every_file_of_a_group_loads(group: str) -> None:
    for path in (CONFIGS / group).glob("*.yaml"):
        load("ppo", [MODEL, f"{group}={path.stem}"])


def test_all_missing_values_are_told() -> None:
    with pytest.raises(ConfigError) as caught:
        load("ppo", ["critic.model.path=???"])
    assert caught.value.problems == (
        "actor_rollout_ref.model.path: a value is needed: give actor_rollout_ref.model.path=VALUE",
        "critic.model.path: a value is needed: give critic.model.path=VALUE",
    )
