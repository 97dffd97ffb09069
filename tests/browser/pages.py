"""The pages that the project writes, each from small data made here."""

import json
from pathlib import Path

from fusedrl.bench.bubble_cell import Cell, write_cell
from fusedrl.bench.bubble_page import write_sweep
from fusedrl.report.page import write_report
from fusedrl.trainers.sample_table import write_samples
from schedules.search.limits import Limits
from schedules.sweep import Grid, sweep
from schedules.sweep_page import write
from tests.fusedrl.bench.test_bubble_page import FIGURES
from tests.fusedrl.report.folders import HOSTILE, make, step

LONG = "a_key_without_any_place_to_break_" * 8


def report(folder: Path) -> Path:
    """A run of three steps with a profiled one, and hostile text wherever a model or a user writes."""
    make(folder, *(step(n, **{f"val-core/{LONG}/acc/mean@1": 0.1 * n}) for n in (1, 2, 3)), samples=60)
    events = []
    for rank in (0, 1):
        times = {"ph": "X", "pid": rank, "ts": 1000.0 + rank, "dur": 2000.0}
        events += [times | {"tid": 2, "name": "update_fused", "cat": "phase"}]
        events += [times | {"tid": 3, "name": "generate", "cat": "instance"}]
        events += [times | {"tid": 0, "name": f"actor F{m}", "cat": "actor,F", "ts": 1000.0 * m} for m in range(3)]
    (folder / "trace_step2.json").write_text(json.dumps({"traceEvents": events}))
    (folder / "order.svg").write_text("<svg/>")
    return write_report(folder)[0]


def bubbles(folder: Path) -> Path:
    """A sweep of four cells and one that failed."""
    cells = [Cell(depth=2, microbatches=m, method=method) for m in (4, 8) for method in ("serial", "greedy")]
    for k, cell in enumerate(cells):
        figures = {"planned_bubble": 0.05 + 0.1 * k, "measured_bubble": 0.3 - 0.05 * k}
        write_cell(cell, FIGURES | {key: round(value, 4) for key, value in figures.items()}, folder=folder)
    write_sweep([*cells, Cell(depth=3)], folder=folder, command=f"bash launch/sweep_bubble.sh {LONG}")
    return folder / "index.html"


def planned(folder: Path) -> Path:
    """A sweep of schedules alone, with its CSV beside it."""
    grid, limits = Grid((2,), (2, 4), ("serial", "greedy")), Limits(seconds=1.0)
    write(list(sweep(grid, limits=limits)), folder, grid=grid, limits=limits)
    return folder / "index.html"


def samples(folder: Path) -> Path:
    """A validation's samples."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {"ground_truth": "8", "score": 0.5, "acc": 1.0, "pred": "8", "length": 9, "finish_reason": "stop"}
    lines = [{"index": k, "sample": 0, "prompt": HOSTILE, "response": LONG, **told} for k in range(40)]
    write_samples(folder / "step_1", lines)
    return folder / "step_1.html"


PAGES = {"report": report, "bubbles": bubbles, "planned": planned, "samples": samples}
