"""A plan's step over its ranks: what runs where and when, as text and as SVG. Ranks that do the same are one row.

ranks       0                                       43.6 s
0-3         GGGGGGGGGGGGGGGGLLLLLLWWWWTTTTTTTTTTTTTTTTTT       # m: weights on their way
"""

from dataclasses import dataclass
from itertools import pairwise

from fusedrl.plan.meshes import Mesh
from fusedrl.plan.planner import Plan
from schedules.draw.colors import ink_on, kind_color

LETTERS = {
    "actor_gen": "G",
    "actor_logp": "L",
    "ref": "R",
    "reward": "W",
    "critic_values": "V",
    "generation+inference": "S",
    "actor_train": "A",
    "critic_train": "C",
    "actor_train+critic_train": "F",
}
MOVING = "m"
_WIDTH, _ROW, _LEFT = 960.0, 26.0, 90.0  # of the SVG


@dataclass(frozen=True)
class Bar:
    """Of a unit on a row: seconds from begin to end, the first `moved` of them weights on their way."""

    unit: str
    begin: float
    moved: float
    end: float


def rows(plan: Plan) -> dict[Mesh, list[Bar]]:
    """Ranks -> what they do."""
    spans = plan.spans()
    cuts = sorted(
        {0, plan.pricer.costs.cluster.world, *(way.mesh.first for _, way, *_ in spans)}
        | {way.mesh.end for _, way, *_ in spans}
    )
    return {
        Mesh(first, end - first): [
            Bar(unit, begin, moved, until)
            for unit, way, begin, moved, until in spans
            if way.mesh.first <= first and end <= way.mesh.end
        ]
        for first, end in pairwise(cuts)
    }


def text_gantt(plan: Plan, *, width: int = 96) -> str:
    """Lines: a column is a share of the step."""
    total = plan.seconds
    lines = [f"{'ranks':<10} 0{f'{total:.4g} s':>{width - 1}}"]
    for mesh, bars in rows(plan).items():
        cells = ["."] * width
        for bar in bars:
            begin, middle, end = (round(t / total * width) for t in (bar.begin, bar.begin + bar.moved, bar.end))
            cells[begin:end] = MOVING * (middle - begin) + LETTERS[bar.unit] * (end - middle)
        lines.append(f"{mesh!s:<10} {''.join(cells)}")
    used = {unit for unit, *_ in plan.spans()}
    key = ", ".join(f"{letter} {unit}" for unit, letter in LETTERS.items() if unit in used)
    return "\n".join([*lines, f"{key}, {MOVING} weights on their way, . idle"])


def svg_gantt(plan: Plan) -> str:
    """A picture of it, with nothing beside the text of the file needed to show it."""
    total, found = plan.seconds, rows(plan)
    height = _ROW * (len(found) + 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:g} {height:g}" '
        'font-family="sans-serif" font-size="11">',
        f'<text x="4" y="16">{plan.name}: {total:.4g} s a step, predicted</text>',
    ]
    for at, (mesh, bars) in enumerate(found.items(), start=1):
        parts.append(f'<text x="4" y="{_ROW * at + 17:g}">{mesh}</text>')
        parts += [line for bar in bars for line in _bar(bar, at, total)]
    parts.append(f'<text x="{_LEFT:g}" y="{_ROW * (len(found) + 1) + 17:g}">0</text>')
    parts.append(
        f'<text x="{_WIDTH - 4:g}" y="{_ROW * (len(found) + 1) + 17:g}" text-anchor="end">{total:.4g} s</text>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(bar: Bar, at: int, total: float) -> list[str]:
    scale = (_WIDTH - _LEFT - 4) / total
    color = kind_color(list(LETTERS).index(bar.unit), "F")
    fill = "#" + "".join(f"{round(255 * part):02x}" for part in color)
    x, wide = _LEFT + bar.begin * scale, (bar.end - bar.begin) * scale
    y = _ROW * at
    lines = [
        f'<rect x="{x:.2f}" y="{y:g}" width="{wide:.2f}" height="{_ROW - 4:g}" fill="{fill}" stroke="white">'
        f"<title>{bar.unit}: {bar.begin:.3f} to {bar.end:.3f} s</title></rect>"
    ]
    if bar.moved:
        lines.append(f'<rect x="{x:.2f}" y="{y:g}" width="{bar.moved * scale:.2f}" height="4" fill="black"/>')
    if wide > 7 * len(bar.unit):
        lines.append(f'<text x="{x + 4:.2f}" y="{y + 15:g}" fill="{ink_on(color)}">{bar.unit}</text>')
    return lines
