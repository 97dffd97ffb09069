"""Credit windows: how many micro-batches each stage may have in flight, in place of counting memory.

    sum over the stages of a rank of (window x largest activation) <= cap  =>  no rank ever holds more than the cap

With window K, F of micro-batch m + K waits for the release of m: a plain precedence. The cap is split between stages
by filling: each has 1, and the next micro-batch goes to the stage that has the least of what 1F1B wants (S - s at
stage s of S), where it still fits. This forbids orders in which the models' peaks on a rank come at different times.
"""

from collections.abc import Iterator, Mapping

from schedules.problem import Model, Problem

Stage = tuple[str, int]
Windows = Mapping[Stage, int]
_FAVOURED = 1.5  # how much more of its want a favoured model gets


def splits(problem: Problem) -> Iterator[Windows]:
    """Several ways to split the cap: evenly, then with each model favoured. None where no split gives each stage 1."""
    seen: list[Windows] = []
    favours = [{}, *({model.name: _FAVOURED} for model in problem.models)] if len(problem.models) > 1 else [{}]
    for favour in favours:
        windows = fill(problem, favour=favour)
        if windows is not None and windows not in seen:
            seen.append(windows)
            yield windows


def fill(problem: Problem, *, favour: Mapping[str, float]) -> Windows | None:
    """The windows of all stages that hold memory; None where 1 each is too much."""
    held = _held(problem)
    free = [problem.room - _passing(problem, rank) for rank in range(problem.ranks)]
    windows = dict.fromkeys(held, 0)
    for stage in held:
        if not _take(problem, stage, held[stage], free):
            return None
        windows[stage] = 1
    growing = [stage for stage in held if problem.model(stage[0]).microbatches > 1]
    while growing:
        model, s = min(growing, key=lambda stage: _satisfied(problem, stage, windows[stage], favour))
        if _take(problem, (model, s), held[model, s], free):
            windows[model, s] += 1
        else:
            growing.remove((model, s))
            continue
        if windows[model, s] == problem.model(model).microbatches:
            growing.remove((model, s))
    return windows


def equal_the_cap(problem: Problem) -> bool:
    """Whether windows forbid no order that the cap allows: each rank holds one stage's, and equal, activations."""
    held = _held(problem)
    for rank in range(problem.ranks):
        here = [(name, s) for name, s in held if rank in problem.model(name).ranks_of(s)]
        if len(here) > 1 or (here and _passing(problem, rank) > 0):
            return False
    return all(len(set(_activations(problem.model(name), s))) == 1 for name, s in held)


def _held(problem: Problem) -> dict[Stage, float]:
    """The largest activation of each stage whose micro-batches stay in memory from forward to backward."""
    largest = {(m.name, s): max(_activations(m, s)) for m in problem.models if m.trains for s in range(m.stages)}
    return {stage: activation for stage, activation in largest.items() if activation > 0}


def _passing(problem: Problem, rank: int) -> float:
    """What forward-only stages hold on a rank: one micro-batch's activation, while its op runs."""
    models = [model for model in problem.models if not model.trains]
    return max((max(_activations(m, s)) for m in models for s in m.stages_on(rank)), default=0.0)


def _activations(model: Model, stage: int) -> list[float]:
    return [model.activation_of(stage, m) for m in range(model.microbatches)]


def _satisfied(problem: Problem, stage: Stage, window: int, favour: Mapping[str, float]) -> float:
    model = problem.model(stage[0])
    want = min(model.microbatches, model.stages - stage[1])
    return window / (want * favour.get(model.name, 1.0))


def _take(problem: Problem, stage: Stage, amount: float, free: list[float]) -> bool:
    """Give a stage room for one more micro-batch on all its ranks, where there is."""
    ranks = problem.model(stage[0]).ranks_of(stage[1])
    if any(free[rank] < amount for rank in ranks):
        return False
    for rank in ranks:
        free[rank] -= amount
    return True
