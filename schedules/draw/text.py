"""An order as a text grid: one line a rank, time to the right.

rank 0 |A0-A1-....a0----C0a1----
         forward in upper case, backward in lower case, its weight part with a star; dots are bubbles
"""

from schedules.order import Op, Order
from schedules.problem import Problem
from schedules.replay import replay


def text_grid(problem: Problem, order: Order, *, width: int = 120) -> str:
    """The grid, `width` columns for the whole makespan, under a line that says what it shows."""
    result = replay(problem, order)
    letters = _letters([model.name for model in problem.models])
    scale = width / result.makespan if result.makespan else 0.0
    lines = [_summary(problem, order, letters)]
    for rank, row in enumerate(order.rows):
        cells = ["."] * width
        for op in row:
            begin, end = round(result.start[op] * scale), round(result.end[op] * scale)
            cells[begin:end] = _label(op, letters).ljust(end - begin, "-")[: end - begin]
        lines.append(f"rank {rank:<3}|{''.join(cells)}")
    return "\n".join(lines) + "\n"


def _summary(problem: Problem, order: Order, letters: dict[str, str]) -> str:
    result = replay(problem, order)
    names = ", ".join(f"{letter} {name}" for name, letter in letters.items())
    return (
        f"{names}; makespan {result.makespan:g}, bubble ratio {result.bubble_ratio:.2%}, "
        f"peak memory {result.max_peak_memory:g}; upper case F, lower case B, star W"
    )


def _label(op: Op, letters: dict[str, str]) -> str:
    letter = letters[op.model] if op.kind == "F" else letters[op.model].lower()
    return f"{letter}{'*' if op.kind == 'W' else ''}{op.microbatch}"


def _letters(names: list[str]) -> dict[str, str]:
    """A capital for each model: one of its name if free, else the next free one."""
    letters: dict[str, str] = {}
    for name in names:
        wanted = [c.upper() for c in name if c.isascii() and c.isalpha()] + list("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
        letters[name] = next((c for c in wanted if c not in letters.values()), "?")
    return letters
