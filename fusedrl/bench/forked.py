"""CPU ranks forked for one measurement from a process that has imported what they need: it takes them a second."""

import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.bench.emulated import sharpen_sleep


def on_forked_ranks(
    function: Callable[..., Any],
    *arguments: Any,
    world: int,
    limit: float,
    timeout: float,
    imported: Sequence[str],
) -> list[Any]:
    """What `function(*arguments)` returns on each rank of a gloo world. limit: seconds until all have answered;
    timeout: of a message; imported: modules. Raises RuntimeError with the first failing rank's words, and leaves no
    process behind."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(imported))
    ranks: list[tuple[BaseProcess, Connection]] = []
    with tempfile.TemporaryDirectory(prefix="fusedrl-ranks-") as folder:
        try:
            for rank in range(world):
                process: BaseProcess
                ours, theirs = context.Pipe(duplex=False)
                asked = (theirs, rank, world, str(Path(folder) / "store"), timeout, function, arguments)
                process = context.Process(target=_rank, args=asked, daemon=True)
                process.start()
                theirs.close()
                ranks.append((process, ours))
            return _answers([connection for _, connection in ranks], limit=limit)
        finally:
            for process, _ in ranks:
                process.kill()
                process.join()


def _answers(connections: list[Connection], *, limit: float) -> list[Any]:
    """What each rank sent, by rank."""
    found: dict[int, Any] = {}
    until = time.monotonic() + limit
    while len(found) < len(connections):
        left = [each for rank, each in enumerate(connections) if rank not in found]
        ready = wait(left, timeout=max(0.0, until - time.monotonic()))
        if not ready:
            raise RuntimeError(f"{len(left)} of {len(connections)} ranks gave no answer in {limit:.0f} s")
        for connection in ready:
            rank = connections.index(connection)  # type: ignore[arg-type]
            try:
                good, answer = connections[rank].recv()
            except EOFError:
                good, answer = False, "it ended without a word"
            if not good:
                raise RuntimeError(f"rank {rank} of {len(connections)}: {answer}")
            found[rank] = answer
    return [found[rank] for rank in range(len(connections))]


def _rank(
    connection: Connection,
    rank: int,
    world: int,
    store: str,
    timeout: float,
    function: Callable[..., Any],
    arguments: Sequence[Any],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who forked the ranks ends them
    torch.set_num_threads(1)
    sharpen_sleep()
    try:
        dist.init_process_group(
            "gloo",
            store=dist.FileStore(store, world),
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=timeout),
        )
        connection.send((True, function(*arguments)))
        dist.barrier()  # a rank that leaves first would cut the others' connections
        dist.destroy_process_group()
    except Exception as error:
        connection.send((False, f"{type(error).__name__}: {error}"))
