"""With the real library, offline, where it is installed (bash launch/test_loggers.sh)."""

import sys
from pathlib import Path

import pytest

from fusedrl.config.schema import BaseTrainerConfig
from fusedrl.telemetry.logger import open_logger
from fusedrl.telemetry.run_folder import RunFolder
from fusedrl.telemetry.wandb_writer import WandbWriter

HERE = "no Weights & Biases here: bash launch/test_loggers.sh"


def test_an_interrupted_run_goes_on_with_its_w_and_b_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason=HERE)
    monkeypatch.setenv("WANDB_MODE", "offline")
    ids = []
    for first in (1, 3):
        writer = WandbWriter(tmp_path, project="p", experiment="mine", config={"a": {"b": 1}})
        for step in range(first, first + 3):
            writer.log(step, {"critic/score/mean": float(step), "actor/lr": float("nan")})
        ids.append(writer.kept_id)
        writer.close()
    assert ids[0] == ids[1] != None  # noqa: E711
    runs = list((tmp_path / "wandb/wandb").glob("offline-run-*"))
    assert len(runs) == 2
    for run in runs:
        (records,) = run.glob("*.wandb")
        assert records.name == f"run-{ids[0]}.wandb"
        assert b"critic/score/mean" in records.read_bytes()
        assert b"actor/lr" not in records.read_bytes()


def test_without_a_key_nobody_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason=HERE)
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ValueError, match="WANDB_MODE=offline"):
        WandbWriter(tmp_path, project="p", experiment="mine", config={})


def test_libraries_that_are_absent_are_missed_only_where_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("wandb", "mlflow"):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it fails
    warnings: list[str] = []
    for asked in (["jsonl"], ["wandb", "mlflow", "jsonl"]):
        trainer = BaseTrainerConfig(logger=asked)
        with open_logger(trainer, RunFolder(tmp_path), total_steps=1, warn=warnings.append) as log:
            log.log({"x": 1.0}, step=1)
    assert [line.split(" could not be opened")[0] for line in warnings] == ["logger wandb", "logger mlflow"]
    assert (tmp_path / "metrics.jsonl").read_text().count('"x": 1.0') == 2
