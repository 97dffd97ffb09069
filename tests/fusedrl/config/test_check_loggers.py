from dataclasses import replace
from importlib.machinery import ModuleSpec

import pytest

from fusedrl.config import check_loggers as module
from fusedrl.config.check_loggers import check_loggers
from fusedrl.config.load import load


@pytest.mark.parametrize("there", [False, True])
def test_a_logger_s_missing_package_is_told_with_its_extra(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: ModuleSpec(name, None) if there else None)
    config = load("ppo", ["experiment=arithmetic", "trainer.logger=[console,wandb,jsonl,wandb]"])
    found = list(check_loggers(config))
    told = "trainer.logger: wandb is not installed: pip install --constraint constraints.txt '.[wandb]', or take wandb"
    assert [line.removesuffix(" out of the list") for line in found] == ([] if there else [told])
    asked = replace(config, trainer=replace(config.trainer, logger=["console", "tensorboard"]))
    assert list(check_loggers(asked)) == []
