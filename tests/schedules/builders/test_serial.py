"""Serial 1F1B and GPipe: closed forms of time and memory, and one model after the other without a barrier."""

import pytest

from schedules.builders.serial import gpipe, serial_1f1b
from schedules.check import check
from schedules.order import Op
from schedules.problem import Model, Problem
from schedules.replay import replay
from tests.schedules.published import SERIAL_PEAK, SERIAL_WITH_BARRIER, published


def line(name="a", *, stages, microbatches, reverse=False, **change):
    placement = list(range(stages))[:: -1 if reverse else 1]
    return Model(name, placement, microbatches, **({"forward": 1, "backward": 2, "activation": 1} | change))


@pytest.mark.parametrize("stages", [1, 2, 4, 7])
@pytest.mark.parametrize("microbatches", [1, 2, 4, 9])
def test_one_model_meets_the_closed_forms(stages, microbatches):
    problem = Problem(stages, (line(stages=stages, microbatches=microbatches),))
    serial, pipe = replay(problem, serial_1f1b(problem)), replay(problem, gpipe(problem))
    assert serial.makespan == pipe.makespan == (microbatches + stages - 1) * 3
    assert serial.peak_memory == tuple(min(microbatches, stages - s) for s in range(stages))
    assert pipe.peak_memory == (microbatches,) * stages


def test_row_of_a_stage_in_text():
    problem = Problem(2, (line(stages=2, microbatches=3),))
    assert serial_1f1b(problem).to_text(problem) == "a:F0 a:F1 a:B0 a:F2 a:B1 a:B2\na:F0 a:B0 a:F1 a:B1 a:F2 a:B2\n"


def test_models_on_other_ranks_do_not_wait_for_each_other():
    problem = Problem(2, (Model("a", [0], 3, 1, 2), Model("b", [1], 3, 1, 2)))
    assert replay(problem, serial_1f1b(problem)).makespan == 9


def test_there_is_no_barrier_between_models():
    """The first stage of a reversed model lies where the model before it ends first, 3 backwards early."""
    first = line("a", stages=4, microbatches=8)
    same, reverse = (line("b", stages=4, microbatches=8, reverse=r) for r in (False, True))
    times = [replay(p, serial_1f1b(p)).makespan for p in (Problem(4, (first, same)), Problem(4, (first, reverse)))]
    assert times == [2 * (8 + 3) * 3, 2 * (8 + 3) * 3 - 3]


@pytest.mark.parametrize("index", range(12))
def test_published_problems_are_faster_than_with_a_barrier_at_the_same_memory(index):
    problem = published(index)
    result = check(problem, serial_1f1b(problem))
    assert result.makespan < SERIAL_WITH_BARRIER[index]
    assert result.max_peak_memory == SERIAL_PEAK[index]


@pytest.mark.parametrize("builder", [serial_1f1b, gpipe])
def test_forward_only_models_stream_through(builder):
    problem = Problem(3, (Model("reference", [0, 1, 2], 5, 2, activation=1),))
    result = check(problem, builder(problem))
    assert result.makespan == (5 + 2) * 2
    assert {op.kind for op in result.start} == {"F"}


@pytest.mark.parametrize("placement", [[0, 1, 1, 0], [0, 1, 0, 1]])
def test_several_stages_on_a_rank_hold_no_more_than_plain_1f1b_over_all_stages(placement):
    problem = Problem(2, (Model("v", placement, 6, 1, 2, activation=1),))
    result = check(problem, serial_1f1b(problem))
    assert result.max_peak_memory <= 4
    assert result.makespan < (6 + 3) * 3 * 2 - 6  # better than all stages in a row


def test_gpipe_runs_the_last_stage_of_a_rank_back_first():
    problem = Problem(1, (Model("v", [0, 0], 2, 1, 2),))
    ops = [Op("v", kind, m, s) for kind, stages in (("F", (0, 1)), ("B", (1, 0))) for s in stages for m in (0, 1)]
    assert gpipe(problem).rows == (tuple(ops),)
