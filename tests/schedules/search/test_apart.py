"""Models apart: on each rank one after the other, and no worse than their closed form."""

import pytest

from schedules.bench.problems import capped, published
from schedules.check import check
from schedules.search.apart import in_turn, solve_apart
from schedules.search.limits import Limits
from schedules.solve import solve


@pytest.mark.parametrize("name", ["exp2", "exp5"])
def test_no_rank_begins_a_model_before_it_is_done_with_the_one_before(name):
    problem = capped(published(name), ratio=1.0)
    solution = solve_apart(problem, method="anneal", limits=Limits(float("inf"), steps=1000))
    for row in solution.order.rows:
        turns = [op.model for op in row]
        assert turns == sorted(turns)  # actor, then a critic
    assert check(problem, solution.order) == solution.replay
    assert solution.replay.makespan <= solve(problem, method="serial").replay.makespan


def test_copies_that_share_no_rank_take_their_turn_together():
    assert [[model.name for model in turn] for turn in in_turn(published("exp0"))] == [
        ["actor"],
        ["critic0", "critic1"],
    ]
