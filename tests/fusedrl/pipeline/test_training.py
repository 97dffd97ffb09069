from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fusedrl.pipeline.executor import Work
from fusedrl.pipeline.training import train_pass


class Recorder:
    """Stands for the executor and for models; writes down what happens."""

    def __init__(self, name: str, log: list[str]) -> None:
        self._name, self._log = name, log

    def zero_grad(self) -> None:
        self._log.append(f"{self._name} zero")

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        self._log.append(f"{self._name} quiet")
        yield
        self._log.append(f"{self._name} loud")

    def finalize_grads(self) -> None:
        self._log.append(f"{self._name} finalize")

    def start_reduce(self) -> None:
        self._log.append(f"{self._name} reduce")

    def holds(self, name: str) -> bool:
        return name != "elsewhere"

    def run(self, program: Any, work: Any, *, measure_memory: bool, finished: Any) -> str:
        self._log.append("run measured" if measure_memory else "run")
        for begin in reversed(finished.values()):
            begin()
        return "result"


def test_gradients_are_finalized_once_each_after_the_whole_pass() -> None:
    log: list[str] = []
    models = {name: Recorder(name, log) for name in ("a", "c")}
    work = {name: Work([], loss=lambda o, m: (o, {})) for name in models} | {"reference": Work([])}
    work["elsewhere"] = Work([], loss=lambda o, m: (o, {}))
    assert train_pass(Recorder("", log), None, work, models=models) == "result"  # type: ignore[arg-type]
    assert log == [
        *["a zero", "c zero", "a quiet", "c quiet", "run", "c reduce", "a reduce"],
        *["c loud", "a loud", "a finalize", "c finalize"],
    ]


def test_memory_is_measured_where_asked() -> None:
    log: list[str] = []
    train_pass(Recorder("", log), None, {}, models={}, measure_memory=True)  # type: ignore[arg-type]
    assert log == ["run measured"]


def test_a_model_with_a_loss_must_be_given() -> None:
    work = {"actor": Work([], loss=lambda o, m: (o, {}))}
    with pytest.raises(ValueError, match="work with a loss"):
        train_pass(Recorder("", []), None, work, models={})  # type: ignore[arg-type]
