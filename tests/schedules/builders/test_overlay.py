"""Overlaid pipelines: Chimera's closed form, and validity for any problem."""

import pytest

from schedules.builders import overlay, serial_1f1b
from schedules.check import check
from schedules.problem import Model, Problem
from schedules.replay import replay
from tests.schedules.published import published
from tests.schedules.strategies import for_all, problems


@pytest.mark.parametrize("stages", [2, 4, 6, 8])
def test_two_half_pipelines_make_chimera(stages):
    down = Model("down", list(range(stages)), stages // 2, 1, 1, activation=1)
    up = Model("up", list(reversed(range(stages))), stages // 2, 1, 1, activation=1)
    problem = Problem(stages, (down, up))
    result = check(problem, overlay(problem))
    assert result.makespan == 3 * stages - 2
    assert result.peak_memory[0] == result.peak_memory[-1] == stages // 2 + 1


@for_all(problems(capped=False), examples=80)
def test_any_problem_can_be_overlaid(problem):
    check(problem, overlay(problem))


def test_actor_and_critic_overlaid_beat_one_after_the_other():
    problem = published(5)
    assert replay(problem, overlay(problem)).makespan < replay(problem, serial_1f1b(problem)).makespan
