"""Other placements of the same work: each stage cut in two, the halves laid as a V or interleaved.

    line         [0, 1, 2, 3]                 as given
    v            [0, 1, 2, 3, 3, 2, 1, 0]     both ends of a model on one rank
    interleaved  [0, 1, 2, 3, 0, 1, 2, 3]     two rounds over the ranks

Half-stage k of the 2 S has half of what stage k // 2 costs and holds: the layers stay in sequence, so a heavy first or
last stage stays at the model's ends. Models that already have several stages on a rank are left as they are.
"""

from dataclasses import replace
from typing import Any

from schedules.forms import entry
from schedules.problem import Model, Problem

SHAPES = ("line", "v", "interleaved")


def place(problem: Problem, *, shape: str) -> Problem:
    """The problem with its models laid out in one of SHAPES."""
    if shape == "line":
        return problem
    return replace(problem, models=tuple(_halved(model, shape) for model in problem.models))


def _halved(model: Model, shape: str) -> Model:
    ranks = [model.ranks_of(s) for s in range(model.stages)]
    if len({rank for own in ranks for rank in own}) < sum(map(len, ranks)):
        return model
    second = ranks[::-1] if shape == "v" else ranks
    quantities = {key: getattr(model, key) for key in ("forward", "backward", "backward_weight", "activation")}
    halves: dict[str, Any] = {
        key: [[entry(form, k // 2, m) / 2 for m in range(model.microbatches)] for k in range(2 * model.stages)]
        for key, form in quantities.items()
        if form is not None
    }
    return replace(model, placement=[*ranks, *second], **halves)
