"""Problems made to fit a benchmark: folded onto fewer ranks, or given a weight part of their backward.

Folding by k merges ranks r k ... r k + k - 1 into rank r. Stages of a model that follow each other and come to lie on
one rank become one stage with the sum of their times and activations; micro-batches stay. The work and its balance are
the same; the pipeline is a k-th as deep, so bubbles are smaller than in the problem as given.

    16 ranks   stage  0 1 2 3 ... 15  on rank  0 1 2 3 ... 15          folded by 2:  stage 0 1 ... 7  on rank 0 1 ... 7
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from schedules.forms import entry
from schedules.problem import Model, Problem, ProblemError

_QUANTITIES = ("forward", "backward", "backward_weight", "activation")


def folded(problem: Problem, *, ranks: int) -> Problem:
    """The problem on fewer ranks, with a memory cap as much larger. Raises ProblemError where they do not divide."""
    if ranks < 1 or problem.ranks % ranks:
        raise ProblemError(f"scale: {problem.ranks} ranks cannot be folded to {ranks}; start a divisor of them")
    by = problem.ranks // ranks
    cap = None if problem.memory_cap is None else problem.memory_cap * by
    models = tuple(_folded_model(model, by=by) for model in problem.models)
    return replace(problem, ranks=ranks, models=models, memory_cap=cap)


def with_weight_part(problem: Problem) -> Problem:
    """Every training model with a backward_weight: its own, or half of its backward where it has none."""
    return replace(problem, models=tuple(_with_weight_part(model) for model in problem.models))


def _folded_model(model: Model, *, by: int) -> Model:
    placed = [tuple(dict.fromkeys(rank // by for rank in model.ranks_of(s))) for s in range(model.stages)]
    runs: list[list[int]] = []
    for stage, ranks in enumerate(placed):
        if runs and placed[runs[-1][-1]] == ranks:
            runs[-1].append(stage)
        else:
            runs.append([stage])
    sums = {key: _summed(model, key, runs) for key in _QUANTITIES if getattr(model, key) is not None}
    return replace(model, placement=[placed[run[0]] for run in runs], **sums)


def _summed(model: Model, key: str, runs: Sequence[Sequence[int]]) -> Any:
    form = getattr(model, key)
    return [[sum(entry(form, s, m) for s in run) for m in range(model.microbatches)] for run in runs]


def _with_weight_part(model: Model) -> Model:
    if not model.trains or model.backward_weight is not None:
        return model
    halves = [[model.duration("B", s, m) / 2 for m in range(model.microbatches)] for s in range(model.stages)]
    return replace(model, backward_weight=halves)
