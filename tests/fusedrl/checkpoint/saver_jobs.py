"""Saves on gloo ranks, of tensors that stand for models; and by one process that is killed at every place.

python -m tests.fusedrl.checkpoint.saver_jobs FOLDER      prints, for each place, the step that is left whole
"""

import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.checkpoint import saver as saving
from fusedrl.checkpoint.choose import exactly, last_good
from fusedrl.checkpoint.folder import candidates, saved_steps, state_folder
from fusedrl.checkpoint.manifest import damage, read_manifest
from fusedrl.checkpoint.saver import SaveError, Saver
from fusedrl.checkpoint.snapshot import Snapshot, rank_file
from fusedrl.checkpoint.tensor_file import Written, read_part, write_tensors


def snapshot(step: int) -> Snapshot:
    return Snapshot({"x": torch.full((1000,), float(step))}, {})


def save(saver: Saver, step: int) -> None:
    saver.save(step, lambda: snapshot(step), command="test", values={"step": step})


def several(*, folder: str, steps: list[int], keep: int | None, asynchronous: bool) -> list[str]:
    """What was told."""
    told: list[str] = []
    saver = Saver(Path(folder), keep, asynchronous, told.append)
    for step in steps:
        save(saver, step)
        if not asynchronous:
            assert candidates(Path(folder))[0] == step
    saver.finish()
    return told


def hanging(*, folder: str) -> str:
    """What is told where rank 1's file does not get written."""
    go = threading.Event()

    def stuck(path: Path, *arguments: Any, **options: Any) -> Written:
        if dist.get_rank() == 1:
            go.wait(20)
        return write_tensors(path, *arguments, **options)

    saving.write_tensors = stuck
    saver = Saver(Path(folder), timeout_s=0.2)
    try:
        save(saver, 1)
        saver.finish()
    except SaveError as error:
        return str(error)
    finally:
        saving.write_tensors = write_tensors
        go.set()
    return "saved"


def while_written(*, folder: str) -> dict[str, Any]:
    """A save whose writing rank 1 holds back: when it counts."""
    checkpoints, go = Path(folder), threading.Event()

    def held_back(path: Path, *arguments: Any, **options: Any) -> Written:
        if dist.get_rank() == 1:
            assert go.wait(20)
        return write_tensors(path, *arguments, **options)

    saving.write_tensors = held_back
    try:
        saver = Saver(checkpoints)
        save(saver, 1)
        saver.advance()
        dist.barrier()
        before = candidates(checkpoints)
        go.set()
        saver.finish()
        return {"before": before, "after": candidates(checkpoints)}
    finally:
        saving.write_tensors = write_tensors


def disk_full(*, folder: str, rank: int, asynchronous: bool) -> str:
    """Step 1 is saved, then `rank`'s disk is full: the error, and what is left."""

    def full(path: Path, *arguments: Any, **options: Any) -> Written:
        return write_tensors(Path("/dev/full") if dist.get_rank() == rank else path, *arguments, **options)

    saver = Saver(Path(folder), asynchronous=asynchronous)
    save(saver, 1)
    saver.finish()
    saving.write_tensors = full
    try:
        save(saver, 2)
        saver.finish()
    except SaveError as error:
        saver.finish()  # nothing is under way any more
        return str(error)
    finally:
        saving.write_tensors = write_tensors
    return "no error"


def found(*, folder: str, path: str | None = None) -> dict[str, Any]:
    """The step to go on from, or the error; and what was told."""
    told: list[str] = []
    try:
        saved = last_good(Path(folder), say=told.append) if path is None else exactly(Path(path))
    except ValueError as error:
        return {"error": str(error), "told": told}
    return {"step": None if saved is None else saved.step, "told": told}


def _killed_at(place: int, folder: Path) -> bool:
    """A process saves step 2 after step 1; it is killed before its `place`-th call that touches the disk."""
    if process := os.fork():
        _, status = os.waitpid(process, 0)
        return os.WIFSIGNALED(status)
    calls = 0

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def counting(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == place:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return counting

    for owner, name in ((os, "fsync"), (Path, "rename"), (Path, "replace"), (Path, "mkdir"), (Path, "unlink")):
        setattr(owner, name, counted(getattr(owner, name)))
    for name in ("unlink", "rmdir"):  # of rmtree
        setattr(os, name, counted(getattr(os, name)))
    _join()
    saver = Saver(folder, keep=1)
    save(saver, 2)
    saver.finish()
    os._exit(0)


def _join() -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def _whole_step(folder: Path) -> int:
    """The step to go on from; all its files are good."""
    step = candidates(folder)[0]
    state = state_folder(folder, step)
    manifest = read_manifest(state)
    assert list(damage(state, manifest)) == []
    assert manifest.step == manifest.values["step"] == step
    assert torch.equal(read_part(state / rank_file(0), "x"), torch.full((1000,), float(step)))
    return step


def main(parent: Path) -> None:
    torch.set_num_threads(1)
    first = parent / "first"
    if not (process := os.fork()):
        _join()
        saver = Saver(first)
        save(saver, 1)
        saver.finish()
        os._exit(0)
    os.waitpid(process, 0)
    place, killed = 0, True
    while killed:
        place += 1
        folder = parent / str(place)
        shutil.copytree(first, folder)
        killed = _killed_at(place, folder)
        print(_whole_step(folder), len(saved_steps(folder)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
