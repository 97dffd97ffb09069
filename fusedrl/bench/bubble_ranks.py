"""A cell measured: its order found, then run by as many CPU ranks as it is deep, whose stages sleep.

The ranks are forked for one cell. What is planned is the same on any machine, what is emulated has the machine in it.
"""

from pathlib import Path
from typing import Any

from fusedrl.bench.bubble_cell import Cell, Figures, cell_problem
from fusedrl.bench.cases import Case, from_wire, solve_case, to_wire
from fusedrl.bench.forked import on_forked_ranks
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
    found = on_forked_ranks(
        _run, to_wire(case), cell, world=cell.depth, limit=limit, timeout=cell.timeout, imported=IMPORTED
    )
    return found[0]


def _run(wire: dict[str, Any], cell: Cell) -> list[Figures]:
    return run_case(from_wire(wire), options_of(cell))


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
