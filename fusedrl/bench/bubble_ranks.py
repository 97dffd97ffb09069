"""A cell measured: its order found, then run by as many CPU ranks as it is deep, whose stages sleep.

The ranks are forked from one process that has imported what they need, and live for one cell; that is a second a cell
instead of a torchrun's ten. What is planned is the same on any machine, what is emulated has the machine in it.
"""

import multiprocessing
import signal
import tempfile
import time
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.bench.bubble_cell import Cell, Figures, cell_problem
from fusedrl.bench.cases import Case, from_wire, solve_case, to_wire
from fusedrl.bench.emulated import sharpen_sleep
from fusedrl.bench.pipeline import Options, medians, run_case
from schedules.bounds import lower_bound
from schedules.builders import serial_1f1b
from schedules.replay import replay

IMPORTED = ["fusedrl.bench.bubble_ranks"]
ROOM = 60.0  # seconds beyond its sleeping that a cell may take


def measure(cell: Cell) -> Figures:
    """What is kept of a cell: medians over the repeats after the first; or why the method does not suit it."""
    case = solve_case(cell_problem(cell), cell.method, limits=cell.limits)
    if case.order is None:
        return {"refused": case.refused}
    planned = replay(case.problem, case.order)
    serial = replay(cell_problem(cell), serial_1f1b(cell_problem(cell)))
    bound = lower_bound(case.problem)
    work = planned.makespan * (1 - planned.bubble_ratio)
    limit = cell.timeout + ROOM + 10 * cell.repeats * planned.makespan * cell.unit_ms / 1e3
    found = medians(on_ranks(case, cell, limit=limit)) | {
        "least_bubble": max(0.0, 1 - work / bound) if bound else 0.0,
        "peak_memory": planned.max_peak_memory / serial.max_peak_memory,
        "solve_seconds": case.seconds,
    }
    return {key: round(value, 6) for key, value in found.items()}


def on_ranks(case: Case, cell: Cell, *, limit: float) -> list[Figures]:
    """Every repeat's figures. Raises RuntimeError with the first failing rank's words, and leaves no process behind."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    ranks: list[tuple[BaseProcess, Connection]] = []
    with tempfile.TemporaryDirectory(prefix="fusedrl-bubble-") as folder:
        try:
            for rank in range(cell.depth):
                process: BaseProcess
                ours, theirs = context.Pipe(duplex=False)
                asked = (theirs, rank, str(Path(folder) / "store"), to_wire(case), cell)
                process = context.Process(target=_rank, args=asked, daemon=True)
                process.start()
                theirs.close()
                ranks.append((process, ours))
            return _answers([connection for _, connection in ranks], limit=limit)[0]
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


def _rank(connection: Connection, rank: int, store: str, wire: dict[str, Any], cell: Cell) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep ends its ranks
    torch.set_num_threads(1)
    sharpen_sleep()
    try:
        dist.init_process_group(
            "gloo",
            store=dist.FileStore(store, cell.depth),
            rank=rank,
            world_size=cell.depth,
            timeout=timedelta(seconds=cell.timeout),
        )
        connection.send((True, run_case(from_wire(wire), options_of(cell))))
        dist.barrier()  # a rank that leaves first would cut the others' connections
        dist.destroy_process_group()
    except Exception as error:
        connection.send((False, f"{type(error).__name__}: {error}"))


def options_of(cell: Cell) -> Options:
    """The pipeline benchmark's."""
    return Options(
        problem=Path(cell.name),
        unit_ms=cell.unit_ms,
        methods=(cell.method,),
        repeats=cell.repeats,
        payload=cell.payload,
        timeout=cell.timeout,
    )
