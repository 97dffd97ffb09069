"""Arguments before Hydra sees them."""

from pathlib import Path

import pytest

from fusedrl.config.arguments import check_keys, for_command
from fusedrl.config.errors import ConfigError
from fusedrl.config.schema import PPOConfig


def test_experiment_of_other_commands_is_looked_up_in_their_folder() -> None:
    arguments = ["experiment=a", "trainer.experiment_name=b", "x=experiment=c"]
    assert for_command(arguments, command="ppo") == arguments
    assert for_command(arguments, command="sft") == ["experiment/sft=a", *arguments[1:]]


def test_keys_groups_and_open_dicts_pass_and_the_rest_is_told(tmp_path: Path) -> None:
    (tmp_path / "flavour").mkdir()
    good = ["trainer.seed=1", "critic.optim={lr: 1}", "flavour=sweet", "data.task.config.any=1", "hydra.job.name=x"]
    check_keys(good, schema=PPOConfig, folders=[tmp_path])
    with pytest.raises(ConfigError) as caught:
        check_keys([*good, "flavor=sour", "data.task.confi.any=1"], schema=PPOConfig, folders=[tmp_path])
    assert caught.value.problems[0] == "flavor: no such key; did you mean flavour?"
    assert len(caught.value.problems) == 2
