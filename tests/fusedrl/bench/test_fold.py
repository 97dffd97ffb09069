from pathlib import Path

import pytest

from fusedrl.bench.fold import folded, with_weight_part
from schedules.problem import Model, Problem, ProblemError
from schedules.replay import work_of

CONFIGS = Path(__file__).parents[3] / "configs/schedule"


def test_folding_merges_pairs_of_stages_and_keeps_the_work() -> None:
    stages = [1.0, 2.0, 3.0, 4.0]
    model = Model("actor", [0, 1, 2, 3], 2, forward=stages, backward=[2 * f for f in stages], activation=stages)
    critic = Model("critic", [3, 2, 1, 0], 1, forward=[[4.0], [3.0], [2.0], [1.0]], backward=1.0, backward_weight=0.5)
    half = folded(Problem(4, (model, critic), memory_cap=10.0), ranks=2)
    expected = Model("actor", [0, 1], 2, forward=[3.0, 7.0], backward=[6.0, 14.0], activation=[3.0, 7.0])
    reverse = Model("critic", [1, 0], 1, forward=[7.0, 3.0], backward=2.0, backward_weight=1.0)
    assert half == Problem(2, (expected, reverse), memory_cap=20.0)


def test_stages_that_do_not_follow_each_other_stay_apart() -> None:
    model = Model("actor", [0, 1, 2, 3, 0, 1, 2, 3], 4, forward=1.0, backward=2.0)
    half = folded(Problem(4, (model,)), ranks=2)
    assert half.models[0].placement == (0, 1, 0, 1)
    assert half.models[0].forward == 2.0


@pytest.mark.parametrize("number", range(6, 12))
def test_published_problems_of_16_ranks_keep_their_work_on_8(number: int) -> None:
    problem = Problem.load(CONFIGS / f"exp{number}.yaml")
    half = folded(problem, ranks=8)
    pairs = work_of(problem)
    assert work_of(half) == pytest.approx([a + b for a, b in zip(pairs[::2], pairs[1::2], strict=True)])
    assert all(len(model.stages_on(rank)) <= 1 for model in half.models for rank in range(8))


def test_ranks_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ProblemError, match="4 ranks cannot be folded to 3"):
        folded(Problem(4, (Model("actor", [0, 1, 2, 3], 1, forward=1.0),)), ranks=3)


def test_a_weight_part_is_half_of_backward_where_none_is_given() -> None:
    models = (
        Model("actor", [0, 1], 1, forward=1.0, backward=[2.0, 6.0]),
        Model("critic", [1, 0], 1, forward=1.0, backward=2.0, backward_weight=0.5),
        Model("ref", [0, 1], 1, forward=1.0),
    )
    assert [m.backward_weight for m in with_weight_part(Problem(2, models)).models] == [(1.0, 3.0), 0.5, None]
