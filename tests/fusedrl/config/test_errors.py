"""Each kind of mistake gives one line that names the key and what to do, whoever found it."""

from pathlib import Path

import pytest

from fusedrl.config.errors import ConfigError
from fusedrl.config.load import from_yaml, load
from fusedrl.config.schema import PPOConfig

MODEL = "actor_rollout_ref.model.path=m"


def problems(*overrides: str, config_dir: Path | None = None) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load("ppo", [MODEL, *overrides], config_dir=config_dir)
    assert all("\n" not in problem for problem in caught.value.problems)
    return caught.value.problems


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("critic.optim.lrr=3", "critic.optim.lrr: no such key; did you mean critic.optim.lr?"),
        ("+critic.optim.lrr=3", "critic.optim.lrr: no such key; did you mean critic.optim.lr?"),
        ("++critic.optim.lrr=3", "critic.optim.lrr: no such key; did you mean critic.optim.lr?"),
        ("paralel=pp2", "paralel: no such key; did you mean parallel?"),
        (
            "+trainer.n_gpus_per_node=8",
            "trainer.n_gpus_per_node: no such key; ranks are the launcher's: torchrun --nproc-per-node N",
        ),
        ("qqqqqq=1", "qqqqqq: no such key; --help lists all keys"),
        ("critic.ppo_epochs=x", "critic.ppo_epochs: 'x' is not a whole number"),
        ("critic.ppo_epochs=1.5", "critic.ppo_epochs: '1.5' is not a whole number"),
        ("critic.optim.lr=fast", "critic.optim.lr: 'fast' is not a number"),
        ("data.shuffle=perhaps", "data.shuffle: 'perhaps' is not true or false"),
        ("critic.ppo_epochs=null", "critic.ppo_epochs: null is not allowed here"),
        ("data.train_files=a", "data.train_files: a list is needed: write [a,b] or [a]"),
        ("critic.optim=3", "critic.optim: holds further keys and takes no value itself; set one of the keys below it"),
        ("~critic.ppo_epochs", "critic.ppo_epochs: a key of the schema cannot be removed; set it to another value"),
        (
            "critic.ppo_epochs=1,2",
            "critic.ppo_epochs=1,2: one value is needed; a list is written critic.ppo_epochs=[1,2]",
        ),
        ("critic.ppo_epochs", None),
        ("--fast", None),
        ("critic.model.path=${nokey}", "critic.model.path: Interpolation key 'nokey' not found"),
        ("critic.ppo_epochs=0", "critic.ppo_epochs=0: must be at least 1"),
        ("trainer.timeout_s=nan", "trainer.timeout_s=nan: must be a finite number"),
        ("schedule=exp1", "schedule: not a group of files to choose from; set the keys below it, schedule.KEY=VALUE"),
    ],
)
def test_a_wrong_argument_gives_one_clear_line(override: str, line: str | None) -> None:
    unreadable = f"cannot read the argument '{override}': write key=value, and quote values with special characters"
    assert problems(override) == (line or unreadable,)


def test_all_unknown_arguments_are_told_at_once() -> None:
    assert len(problems("critic.optm.lr=1", "+trainer.sed=1", "trainer.seed=1", "nothing.like.it=2")) == 3


def test_a_missing_file_names_the_files_there_are() -> None:
    (line,) = problems("parallel=pp3")
    assert line.startswith("parallel=pp3: no such file configs/parallel/pp3.yaml; there are: pp2, pp4, single")
    assert "did you mean parallel=pp" in line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("critic: {optim: {lrr: 3}}", "{file}: critic.optim.lrr: no such key; did you mean critic.optim.lr?"),
        ("critic: {ppo_epochs: x}", "{file}: critic.ppo_epochs: 'x' is not a whole number"),
        ("critic: : 3", 'not valid YAML: mapping values are not allowed here in "{file}", line 2, column 9'),
    ],
)
def test_a_mistake_in_a_file_names_the_file(text: str, line: str, tmp_path: Path) -> None:
    file = tmp_path / "experiment" / "mine.yaml"
    file.parent.mkdir()
    file.write_text(f"# @package _global_\n{text}\n")
    assert problems("experiment=mine", config_dir=tmp_path) == (line.format(file=file),)


def test_a_mistake_in_a_saved_configuration_names_the_key() -> None:
    with pytest.raises(ConfigError, match=r"critic\.ppo_epoch: no such key; did you mean critic\.ppo_epochs\?"):
        from_yaml("critic: {ppo_epoch: 3}", schema=PPOConfig)
