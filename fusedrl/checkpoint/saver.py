"""Saves states while training goes on: a copy in memory, a thread that writes it, a commit that all ranks agree on.

    save     every rank copies its share; training goes on; the thread of each rank writes and flushes its file
    advance  after a later step: are all ranks' files there? then rank 0 writes the manifest, renames the folder to its
             name, and moves the pointer: only now it is the last good state
    finish   waits for the threads, then commits

A kill at any moment leaves the states before. The threads never communicate: whether all are done is asked at steps'
ends, by all ranks alike. What a rank could not do (a full disk) ends the run on all of them, with one message.
"""

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fusedrl.checkpoint import folder as names
from fusedrl.checkpoint.atomic import publish_folder
from fusedrl.checkpoint.manifest import Manifest, write_manifest
from fusedrl.checkpoint.snapshot import Snapshot, rank_file
from fusedrl.checkpoint.tensor_file import Written, write_tensors
from fusedrl.parallel.comm import all_gather_object
from fusedrl.parallel.team import current, leads


class SaveError(RuntimeError):
    """A state could not be saved, told alike on every rank; the states before it are whole."""


@dataclass(eq=False)
class _Writing:
    """This rank's file under way, in a thread of its own."""

    step: int
    path: Path
    snapshot: Snapshot
    command: str
    values: Mapping[str, Any]
    stood_still_s: float
    seconds: float = 0.0  # that writing took
    written: Written | None = None
    error: str | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._write, name="fusedrl-checkpoint", daemon=True)
        self.thread.start()

    def _write(self) -> None:
        began = time.perf_counter()
        try:
            self.written = write_tensors(self.path, self.snapshot.tensors, metadata=self.snapshot.metadata)
        except Exception as error:
            self.error = str(error) or type(error).__name__
        self.seconds = time.perf_counter() - began


@dataclass(eq=False)
class Saver:
    """Saves into a run's checkpoints folder. All methods are collectives of all ranks.

    keep: how many states stay, None: all. asynchronous: whether training goes on while files are written. timeout_s:
    how long a file may take once it is waited for; a file system that hangs must not hang the run.
    """

    checkpoints: Path
    keep: int | None = None
    asynchronous: bool = True
    say: Callable[[str], None] = lambda text: None
    timeout_s: float = 480.0
    _writing: _Writing | None = None

    def save(self, step: int, snapshot: Callable[[], Snapshot], *, command: str, values: Mapping[str, Any]) -> None:
        """Begin to save the state after `step`; one that is still under way is finished first. Raises SaveError."""
        self.finish()
        began = time.perf_counter()
        beside = self._beside(step)
        self._on_rank_0(step, lambda: _make_empty(beside))
        taken = snapshot()
        path = beside / rank_file(current().place())
        stood_still = time.perf_counter() - began
        self._writing = _Writing(step, path, taken, command, values, stood_still)
        if not self.asynchronous:
            self.finish()

    def advance(self) -> None:
        """Commit what is being written, if it is there on all ranks. Raises SaveError."""
        if self._writing is None:
            return
        mine = self._writing
        done = not mine.thread.is_alive()  # asked before the outcome is read
        written = None if mine.written is None else [mine.written.bytes, mine.written.sha256]
        outcomes = all_gather_object([done, mine.error, written, mine.seconds])
        self._check(mine.step, [error for _, error, _, _ in outcomes])
        if all(done for done, *_ in outcomes):
            self._writing = None
            slowest = max(seconds for *_, seconds in outcomes)
            self._commit(mine, [Written(*written) for _, _, written, _ in outcomes], seconds=slowest)

    def finish(self) -> None:
        """Wait for what is being written and commit it. Raises SaveError."""
        if self._writing is not None:
            self._writing.thread.join(self.timeout_s)
            if self._writing.thread.is_alive():
                self._writing.error = f"{self._writing.path} was not written within {self.timeout_s:g} s"
            self.advance()

    def _commit(self, mine: _Writing, written: list[Written], *, seconds: float) -> None:
        files = {rank_file(rank): each for rank, each in enumerate(written)}
        manifest = Manifest(mine.command, mine.step, current().size, mine.values, files)
        self._on_rank_0(mine.step, lambda: self._publish(manifest))
        stood_still = mine.stood_still_s + (0.0 if self.asynchronous else seconds)
        size = f"{manifest.bytes / 1e6:.1f} MB"
        self.say(
            f"step {mine.step} saved: {size}, written in {seconds:.2f} s; training stood still for {stood_still:.3f} s"
        )

    def _publish(self, manifest: Manifest) -> None:
        beside = self._beside(manifest.step)
        write_manifest(beside, manifest)
        publish_folder(beside, names.state_folder(self.checkpoints, manifest.step))
        names.point_to(self.checkpoints, manifest.step)
        if self.keep is not None:
            names.remove_old(self.checkpoints, keep=self.keep)

    def _beside(self, step: int) -> Path:
        return names.step_folder(self.checkpoints, step) / f".{names.STATE}.part"

    def _on_rank_0(self, step: int, do: Callable[[], None]) -> None:
        error = None
        if leads():
            try:
                do()
            except OSError as failed:
                error = str(failed)
        self._check(step, all_gather_object(error))

    def _check(self, step: int, errors: list[str | None]) -> None:
        """The same on all ranks."""
        found = {rank: error for rank, error in zip(current().ranks, errors, strict=True) if error is not None}
        if not found:
            return
        rank, error = next(iter(found.items()))
        self._writing = None
        if leads():
            shutil.rmtree(self._beside(step), ignore_errors=True)
        raise SaveError(f"step {step} could not be saved: rank {rank}: {error}; {what_stays(self.checkpoints)}")


def what_stays(checkpoints: Path) -> str:
    """For the message of a run that ends."""
    latest = names.latest_step(checkpoints)
    return "no state was saved before" if latest is None else f"the state of step {latest} stays the last good one"


def _make_empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
