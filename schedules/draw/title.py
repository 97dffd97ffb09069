"""The title of a chart: what the order amounts to, and the cost model, without which bubbles mean nothing."""

import textwrap

from schedules.problem import Model, Problem
from schedules.replay import Replay

_MOST_LINES = 10  # of the cost models; a problem may hold any number of models


def title(problem: Problem, result: Replay, *, bound: float, columns: int = 160) -> str:
    """The result, then a cost model a line, wrapped to `columns` characters."""
    cap = "no cap" if problem.memory_cap is None else f"cap {problem.memory_cap:g}"
    head = (
        f"makespan {result.makespan:g} (lower bound {bound:g}), bubble ratio {result.bubble_ratio:.2%}, "
        f"peak memory {result.max_peak_memory:g} ({cap})"
    )
    ranks = f"{problem.ranks} rank{'s' if problem.ranks > 1 else ''}, comm {problem.comm:g}"
    costs = [f"{costs_of(problem.models[0])}; {ranks}", *(costs_of(model) for model in problem.models[1:])]
    lines = [line for text in costs for line in textwrap.wrap(text, columns)]
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], f"... ({len(problem.models)} models in all)"]
    return "\n".join([*textwrap.wrap(head, columns), *lines])


def costs_of(model: Model) -> str:
    """One model's sizes and costs, as 'actor: 8 stages, 8 micro-batches, F 5, B 10, activation 1.95'."""
    parts = {"F": model.forward, "B": model.backward, "of it W": model.backward_weight}
    costs = [f"{kind} {_brief(form)}" for kind, form in parts.items() if form is not None]
    sizes = [f"{model.stages} stages", f"{model.microbatches} micro-batches"]
    return f"{model.name}: {', '.join([*sizes, *costs, f'activation {_brief(model.activation)}'])}"


def _brief(form: object) -> str:
    """A number, or the range of a quantity that varies."""
    if isinstance(form, (int, float)):
        return f"{form:g}"
    numbers = [float(x) for row in form for x in (row if isinstance(row, tuple) else (row,))]  # type: ignore[attr-defined]
    return f"{min(numbers):g} to {max(numbers):g}"
