"""Random problems, small enough to replay by the hundred and varied enough to reach every form."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from schedules.problem import Model, Problem

DURATIONS = st.sampled_from([0, 1, 2, 3, 0.5, 1.95])


def for_all(*strategies: st.SearchStrategy, examples: int = 40) -> Callable:
    """hypothesis.given, the same examples each time, and no limit on the time of one: the machine may be busy."""
    return lambda test: settings(max_examples=examples, deadline=None, derandomize=True)(given(*strategies)(test))


@st.composite
def problems(draw: st.DrawFn, *, wide: bool = True, split: bool = True, capped: bool = True) -> Problem:
    """1-4 ranks, 1-3 models with 1-5 stages anywhere; forward-only, split, several columns and a tight cap included."""
    ranks = draw(st.integers(1, 4))
    models = tuple(draw(_model(f"m{i}", ranks, wide=wide, split=split)) for i in range(draw(st.integers(1, 3))))
    free = Problem(ranks, models, comm=draw(st.sampled_from([0, 0, 0.5])))
    if not capped or draw(st.booleans()):
        return free
    least = max(free.least_memory(rank) for rank in range(ranks))
    return free.with_cap(least * draw(st.sampled_from([1, 1, 1.3, 2])))


@st.composite
def _model(draw: st.DrawFn, name: str, ranks: int, *, wide: bool, split: bool) -> Model:
    stages, microbatches = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    one = st.integers(0, ranks - 1)
    several = st.lists(one, min_size=1, max_size=2, unique=True)
    placement = [draw(st.one_of(one, several) if wide else one) for _ in range(stages)]
    forward = draw(_form(DURATIONS, stages, microbatches))
    activation = draw(_form(st.sampled_from([0, 1, 1.95, 2]), stages, microbatches))
    if draw(st.integers(0, 3)) == 0:
        return Model(name, placement, microbatches, forward, activation=activation)
    backward = draw(_form(st.sampled_from([2, 3, 4.5]), stages, microbatches))
    weight = draw(st.one_of(st.none(), _form(st.sampled_from([0, 1, 2]), stages, microbatches))) if split else None
    return Model(name, placement, microbatches, forward, backward, weight, activation)


@st.composite
def _form(draw: st.DrawFn, number: st.SearchStrategy[float], stages: int, microbatches: int) -> object:
    depth = draw(st.integers(0, 2))
    if depth == 0:
        return draw(number)
    if depth == 1:
        return [draw(number) for _ in range(stages)]
    return [[draw(number) for _ in range(microbatches)] for _ in range(stages)]
