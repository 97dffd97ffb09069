"""The sweep of bubble ratios on paper: sweep.csv, and one page with its charts, tables and the CSV; it opens offline.

Planned: by the order's replay. Emulated: measured on CPU ranks whose stages sleep.
"""

import base64
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fusedrl.bench.bubble_cell import AXES, Cell, Figures, failure_of, read_cell
from fusedrl.checkpoint.atomic import write_file
from fusedrl.report.chart import Series, curves
from fusedrl.report.look import html_page
from fusedrl.trainers.sample_table import as_text

PAGE, TABLE = "index.html", "sweep.csv"
COLUMNS = (
    ("planned_bubble", "planned bubble"),
    ("measured_bubble", "emulated bubble"),
    ("replayed_bubble", "replayed bubble"),
    ("least_bubble", "least bubble"),
    ("planned_makespan_ms", "planned ms"),
    ("measured_makespan_ms", "emulated ms"),
    ("peak_memory", "peak memory"),
    ("solve_seconds", "solved in s"),
)
KINDS = (("planned", 0), ("measured", 1))  # of bubbles in a chart, with their dashes
EXPLAINED = """\
An actor and a critic cross the same ranks in opposite directions, backward twice forward. Bubble: the share of rank
time without work. Planned: by the order's replay. Emulated (dashed): measured on CPU ranks whose stages sleep, so what
messages, the executor and a busy machine cost is in it; replayed leaves messages and executor out. Least: what a
makespan at the lower bound would have. Peak memory: in multiples of serial 1F1B's. All mixes of lengths have the same
work."""

Done = Mapping[Cell, Figures]


def write_sweep(cells: Sequence[Cell], *, folder: Path, command: str) -> list[Cell]:
    """Write both; the cells that are missing. A column and a row for what there is."""
    done = {cell: found for cell in cells if (found := read_cell(cell, folder=folder)) is not None}
    missing = [cell for cell in cells if cell not in done]
    table = csv_of(done)
    write_file(folder / TABLE, table)
    write_file(folder / PAGE, page(done, missing=missing, folder=folder, command=command, table=table))
    return missing


def csv_of(done: Done) -> str:
    """A line a cell: its place in the grid, its figures, and why a method was refused."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([*AXES, *(key for key, _ in COLUMNS), "refused"])
    for cell, found in done.items():
        place = [getattr(cell, key) for key in AXES]
        writer.writerow([*place, *(found.get(key, "") for key, _ in COLUMNS), found.get("refused", "")])
    return file.getvalue()


def page(done: Done, *, missing: Sequence[Cell], folder: Path, command: str, table: str) -> str:
    data = base64.b64encode(table.encode()).decode()
    head = (
        f"<p>{as_text(EXPLAINED)}</p><p><code>{as_text(command)}</code></p>"
        f'<p><a download="{TABLE}" href="data:text/csv;base64,{data}">{TABLE}</a>, {len(done)} cells.'
        " A mark tells its numbers where the pointer rests on it.</p>"
    )
    body = "".join([head, _missing(missing, folder=folder), *_sections(done)])
    return html_page("Bubble ratios: planned and emulated", body)


def _missing(cells: Sequence[Cell], *, folder: Path) -> str:
    if not cells:
        return ""
    lines = "".join(f"<li>{as_text(f'{cell.told()}: {why_missing(cell, folder=folder)}')}</li>" for cell in cells)
    return f"<p>{len(cells)} cells are missing; the same command goes on:</p><ul>{lines}</ul>"


def why_missing(cell: Cell, *, folder: Path) -> str:
    try:
        return failure_of(cell, folder=folder).read_text().strip()
    except OSError:
        return "not run yet"


def _sections(done: Done) -> Iterator[str]:
    methods = list(dict.fromkeys(cell.method for cell in done))
    for depth in dict.fromkeys(cell.depth for cell in done):
        mixes = dict.fromkeys(cell.mix for cell in done if cell.depth == depth)
        parts = {mix: {c: f for c, f in done.items() if (c.depth, c.mix) == (depth, mix)} for mix in mixes}
        charts = "".join(_chart(part, methods, label=f"{depth} ranks, {mix}") for mix, part in parts.items())
        tables = "".join(_table(part, caption=f"{depth} ranks, {mix}") for mix, part in parts.items())
        yield f'<section><h2>{depth} ranks</h2><div class="charts">{charts}</div>{tables}</section>\n'


def _chart(part: Done, methods: Sequence[str], *, label: str) -> str:
    """Bubbles over the micro-batches: a hue a method, emulated dashed."""
    series = []
    for hue, method in enumerate(methods):
        own = sorted((cell for cell in part if cell.method == method), key=lambda cell: cell.microbatches)
        for kind, dash in KINDS:
            points = [(float(c.microbatches), part[c].get(f"{kind}_bubble")) for c in own]
            name = f"{method}, {'emulated' if kind == 'measured' else kind}"
            series += [Series(name, points, hue=hue, dash=dash)] if points else []
    unit = "share of rank time, over micro-batches of each model"
    return curves(series, label=label, unit=unit, low=0.0, across="micro-batches")


def _table(part: Done, *, caption: str) -> str:
    heads = "".join(f"<th>{name}</th>" for name in ("micro-batches", "method", *(name for _, name in COLUMNS)))
    rows = "".join(_row(cell, part[cell]) for cell in sorted(part, key=lambda cell: cell.microbatches))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{as_text(caption)}"><table>'
        f"<caption>{as_text(caption)}</caption><tr>{heads}</tr>{rows}</table></div>\n"
    )


def _row(cell: Cell, found: Mapping[str, Any]) -> str:
    start = f"<td>{cell.microbatches}</td><td>{as_text(cell.method)}</td>"
    if "refused" in found:
        return f'<tr>{start}<td colspan="{len(COLUMNS)}">{as_text(str(found["refused"]))}</td></tr>'
    return f"<tr>{start}{''.join(f'<td>{found[key]:.4g}</td>' for key, _ in COLUMNS)}</tr>"
