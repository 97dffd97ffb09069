"""Every sink gets every step; one that fails is told once and harms nothing."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fusedrl.config.schema import BaseTrainerConfig
from fusedrl.telemetry import logger as module
from fusedrl.telemetry.logger import MetricsLogger, open_logger
from fusedrl.telemetry.run_folder import RunFolder


class Memory:
    """A sink that remembers, and raises at the steps it is told to."""

    def __init__(self, name: str, *, bad_steps: tuple[int, ...] = (), bad_close: bool = False) -> None:
        self.name, self.bad_steps, self.bad_close = name, bad_steps, bad_close
        self.steps: list[int] = []
        self.closed = False

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        if step in self.bad_steps:
            raise OSError("no space left")
        self.steps.append(step)

    def close(self) -> None:
        self.closed = True
        if self.bad_close:
            raise OSError("gone")


def test_a_failing_sink_warns_once_and_the_others_go_on() -> None:
    warnings: list[str] = []
    good, bad = Memory("good"), Memory("bad", bad_steps=(2, 3))
    with MetricsLogger([bad, good], warn=warnings.append) as log:
        for step in range(1, 5):
            log.log({"x": 1.0}, step=step)
        assert len(warnings) == 1
        assert warnings[0].startswith("logger bad failed at step 2 (OSError: no space left); training goes on")
    assert good.steps == [1, 2, 3, 4]
    assert bad.steps == [1, 4]
    assert warnings[1:] == ["logger bad: 2 steps are missing there"]


def test_every_sink_is_closed_even_when_one_cannot_be() -> None:
    warnings: list[str] = []
    sinks = [Memory("a", bad_close=True), Memory("b")]
    MetricsLogger(sinks, warn=warnings.append).close()
    assert [sink.closed for sink in sinks] == [True, True]
    assert warnings == ["logger a could not be closed: OSError: gone"]


def test_an_error_of_the_training_passes_through_and_closes() -> None:
    sink = Memory("a")
    with pytest.raises(ValueError, match="training"), MetricsLogger([sink]):
        raise ValueError("training")
    assert sink.closed


def test_interrupts_are_not_swallowed() -> None:
    class Interrupted(Memory):
        def log(self, step: int, metrics: Mapping[str, Any]) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MetricsLogger([Interrupted("a")]).log({}, step=1)


def test_metrics_jsonl_is_written_whatever_the_list_names(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with open_logger(replace(BaseTrainerConfig(), logger=[]), folder, total_steps=1) as log:
        log.log({"x": 1.0}, step=1)
        log.say("unheard")
    assert json.loads(folder.metrics.read_text())["x"] == 1.0
    assert not folder.tensorboard.exists()


def test_the_list_chooses_sinks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = RunFolder(tmp_path)
    with open_logger(replace(BaseTrainerConfig(), logger=["console"]), folder, total_steps=1) as log:
        log.log({"critic/score/mean": 0.25}, step=1)
        log.say("heard")
    out = capsys.readouterr().out
    assert "reward 0.250" in out
    assert "heard" in out
    assert not folder.tensorboard.exists()


def test_a_sink_that_cannot_be_opened_is_told_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path, *, keep_through: int | None) -> None:
        raise ImportError("no tensorboard")

    monkeypatch.setattr(module, "TensorBoardWriter", broken)
    warnings: list[str] = []
    trainer = replace(BaseTrainerConfig(), logger=["tensorboard"])
    with open_logger(trainer, RunFolder(tmp_path), total_steps=1, warn=warnings.append) as log:
        log.log({"x": 1.0}, step=1)
    assert warnings == [
        "logger tensorboard could not be opened (ImportError: no tensorboard); training goes on without it"
    ]
    assert (tmp_path / "metrics.jsonl").exists()
