"""Other placements of the same work: each stage cut in two or more parts, laid as a V or interleaved.

    line         [0, 1, 2, 3]                 as given
    v            [0, 1, 2, 3, 3, 2, 1, 0]     both ends of a model on one rank
    interleaved  [0, 1, 2, 3, 0, 1, 2, 3]     two rounds over the ranks

Shown for two parts; with more, a V turns at each end and interleaving takes more rounds. Of all S v parts, part k has a
v-th of what stage k // v costs and holds: the layers stay in sequence, so a heavy first or last stage stays at the ends
of the model. Models that already have several stages on a rank are left as they are.
"""

from dataclasses import replace
from typing import Any

from schedules.forms import entry
from schedules.problem import Model, Problem

SHAPES = ("line", "v", "interleaved")


def place(problem: Problem, *, shape: str, parts: int = 2) -> Problem:
    """The problem with its models laid out in one of SHAPES, each stage in that many parts (a line has one)."""
    if shape == "line":
        return problem
    return replace(problem, models=tuple(_cut(model, shape, parts) for model in problem.models))


def _cut(model: Model, shape: str, parts: int) -> Model:
    ranks = [model.ranks_of(s) for s in range(model.stages)]
    if len({rank for own in ranks for rank in own}) < sum(map(len, ranks)):
        return model
    rounds = [ranks[::-1] if shape == "v" and turn % 2 else ranks for turn in range(parts)]
    quantities = {key: getattr(model, key) for key in ("forward", "backward", "backward_weight", "activation")}
    shares: dict[str, Any] = {
        key: [
            [entry(form, k // parts, m) / parts for m in range(model.microbatches)] for k in range(parts * model.stages)
        ]
        for key, form in quantities.items()
        if form is not None
    }
    return replace(model, placement=[own for each in rounds for own in each], **shares)
