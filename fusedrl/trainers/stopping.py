"""A run that is asked to stop ends its step, saves its state, and says so; the same command goes on from there.

    SIGUSR1   Slurm's warning before the time limit or a preemption (sbatch --signal=USR1@120)
    SIGTERM   a launcher or a scheduler that ends the job

    with heeding():                    # from the end of the set-up on; before it there is nothing to save
        ...
        if (name := asked_anywhere()): # at the end of a step, by all ranks: one that was asked stops all
            raise Stopped(step, name, folder)

    with ending():                     # around a command: a rank that ends is not ended before it has told why

A launcher sends SIGTERM to all ranks as soon as one is gone, which may reach a rank that has just lost it and is about
to say so. A handler only notes the signal, so a rank that hangs is not ended by it: whoever sends SIGTERM sends SIGKILL
later.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from fusedrl.parallel.comm import all_gather_object

SIGNALS = (signal.SIGUSR1, signal.SIGTERM)
_came: list[str] = []  # a process has one set of handlers
_ends_by_itself = False  # inside `ending`
_launcher_ends = threading.Event()  # a signal after `heeding`


class Stopped(Exception):
    """The run ended before its last step, on request; raised alike on every rank. folder: of the saved step."""

    def __init__(self, step: int, name: str, folder: Path) -> None:
        super().__init__(f"{name}: stopped after step {step}, saved in {folder}; the same command goes on from there")
        self.step = step


@contextmanager
def heeding() -> Iterator[None]:
    """Note the signals instead of ending by them. Outside the main thread, which alone may set handlers, do nothing."""
    _came.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _note) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, _hear if _ends_by_itself else handler)


@contextmanager
def ending() -> Iterator[None]:
    """Once the run has heeded the signals, they do not end this rank any more: it ends by itself. That stays so where
    the command ends badly, as long as the process lives. Before, they end it as they always do, wherever it hangs."""
    global _ends_by_itself
    before = {number: signal.getsignal(number) for number in SIGNALS}
    _ends_by_itself = True
    _launcher_ends.clear()
    try:
        yield
    finally:
        _ends_by_itself = False
    if threading.current_thread() is threading.main_thread():
        for number, handler in before.items():
            signal.signal(number, handler)


def let_tell(limit_s: float) -> None:
    """Leave another rank time to tell why the run ends: a launcher ends all ranks with the first. Until it does."""
    _launcher_ends.wait(limit_s)


def asked_anywhere() -> str | None:
    """The signal that came to the first rank which got one, on every rank. A collective of all ranks."""
    return next((name for name in all_gather_object(_came[0] if _came else None) if name is not None), None)


def _hear(number: int, frame: FrameType | None) -> None:
    _launcher_ends.set()


def _note(number: int, frame: FrameType | None) -> None:
    _came.append(signal.Signals(number).name)
