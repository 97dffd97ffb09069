"""A launcher for tests: ranks forked with everything imported, ended as torchrun ends them.

    ended = launch(arguments, folder=tmp_path, fault=Fault(...))

The first rank that ends badly has the others told by SIGTERM, as torchrun does; those still there after GRACE_S are
killed. A rank that is well ends by itself long before. The store is the launcher's, as torchrun's agent has it, or
rank 0's, as under Slurm and Open MPI.
"""

import atexit
import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.distributed.pool import IMPORTED
from tests.faults.faults import NOTES, Fault

GRACE_S = 60.0
LONG_S = 600.0  # nothing takes that long; a run that does hangs
MARK = "FUSEDRL_TEST_RUN"  # in the environment of whatever a run starts


@dataclass(frozen=True)
class Ended:
    """How a run ended. codes: by rank, negative for a signal. killed: ranks that the launcher had to kill. left: what
    still ran after them. seconds: from the first rank that ended badly, or stood still, to the last one's end."""

    codes: tuple[int, ...]
    texts: tuple[str, ...]
    killed: tuple[int, ...]
    left: tuple[str, ...]
    seconds: float

    @property
    def text(self) -> str:
        return "".join(f"--- rank {rank}\n{text}" for rank, text in enumerate(self.texts))


def launch(
    arguments: Sequence[str], *, folder: Path, fault: Fault | None = None, world: int = 2, own_store: bool = False
) -> Ended:
    """`fusedrl.ppo` on `world` ranks. own_store: rank 0 has the store, which goes with it."""
    import torch.distributed as dist

    note, mark = folder / NOTES["stuck"], f"{folder}:{time.monotonic_ns()}"
    for each in NOTES.values():
        (folder / each).unlink(missing_ok=True)
    store = None if own_store else dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = _free_port() if store is None else store.port
    given: dict[str, Any] = {"world": world, "port": port, "agent": store is not None, "mark": mark}
    given |= {"arguments": list(arguments), "fault": fault}
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    processes, readers, texts = [], [], [list[bytes]() for _ in range(world)]
    for rank in range(world):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_rank, kwargs={"rank": rank, "output": theirs} | given)
        process.start()
        theirs.close()
        processes.append(process)
        readers.append(threading.Thread(target=_read, args=(ours, texts[rank]), daemon=True))
        readers[-1].start()
    killed, seconds = _end(processes, note=note)
    left = _left(mark)
    for reader in readers:
        reader.join(10)
    codes = tuple(int(process.exitcode or 0) for process in processes)
    shown = tuple(b"".join(each).decode(errors="replace") for each in texts)
    return Ended(codes, shown, killed, left, seconds)


def _rank(
    *,
    rank: int,
    output: Connection,
    world: int,
    port: int,
    agent: bool,
    mark: str,
    arguments: list[str],
    fault: Fault | None,
) -> None:
    """The process of a rank, up to its end; what it prints goes to `output`, a pipe: writing there needs no disk."""
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
    output.close()
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in names.items()})
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1", "CI": "true", MARK: mark})
    if agent:
        os.environ.update({"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"})
    import torch

    from fusedrl import ppo
    from tests.faults.faults import meet

    torch.set_num_threads(1)
    sys.argv = ["fusedrl.ppo", *arguments]
    try:
        meet(fault)
        ppo.main()
    finally:
        atexit._run_exitfuncs()  # as an interpreter does, and a forked process does not


def _end(processes: Sequence[Any], *, note: Path) -> tuple[tuple[int, ...], float]:
    """Wait for all ranks, as torchrun does; (those that had to be killed, seconds from the fault to the end)."""
    ends, broke, waits = time.monotonic() + LONG_S, None, {each.sentinel: each for each in processes}
    killed: list[int] = []
    while waits:
        for sentinel in wait(list(waits), timeout=0.1):
            gone = waits.pop(sentinel)
            gone.join()
            if gone.exitcode and broke is None:
                broke, ends = time.monotonic(), time.monotonic() + GRACE_S
                for process in waits.values():
                    with contextlib.suppress(ProcessLookupError):  # it ended just now
                        os.kill(process.pid, signal.SIGTERM)
        if len(waits) == 1 and note.exists() and broke is not None:  # what stands still takes no other signal
            ends = 0.0
        if time.monotonic() > ends:
            killed += [rank for rank, process in enumerate(processes) if process.sentinel in waits]
            for process in waits.values():
                process.kill()
    began = note.stat().st_mtime if note.exists() else None
    if began is not None:
        return tuple(killed), time.time() - began
    return tuple(killed), 0.0 if broke is None else time.monotonic() - broke


def _left(mark: str) -> tuple[str, ...]:
    """Processes of this run that are still there, after some time to end."""
    ends = time.monotonic() + 20.0
    while (found := _marked(mark)) and time.monotonic() < ends:
        time.sleep(0.05)
    return found


def _marked(mark: str) -> tuple[str, ...]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended, or is another user's
            if f"{MARK}={mark}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return tuple(found)


def _read(pipe: Connection, into: list[bytes]) -> None:
    with pipe, contextlib.suppress(OSError):
        while data := os.read(pipe.fileno(), 1 << 16):
            into.append(data)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
