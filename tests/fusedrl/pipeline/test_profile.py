import json
import random
from dataclasses import replace

import pytest

from fusedrl.pipeline.costs import ConstantCost, CountedCost
from fusedrl.pipeline.plan import Planned, make_problem
from fusedrl.pipeline.profile import (
    MESSAGE,
    Fit,
    Fits,
    MeasuredCost,
    Profile,
    fit_line,
    from_rows,
    measured,
    message_delays,
    message_time,
    to_rows,
)
from fusedrl.pipeline.timeline import TimedOp, Timeline
from schedules.builders import greedy, serial_1f1b
from schedules.order import Order
from schedules.problem import Problem
from schedules.replay import replay
from tests.fusedrl.pipeline.test_costs import Sizes

MS = 10**6
SHAPES = ((2, 8), (2, 4), (1, 6), (3, 8))
COUNTED = CountedCost(Sizes(), layers=[2, 2])
ACTOR = Planned("actor", SHAPES, pp=2, cost=COUNTED)
LONG = replace(ACTOR, shapes=SHAPES * 3)
CRITIC = Planned("critic", SHAPES[:3], pp=2, reverse=True, cost=COUNTED)


class Slow(CountedCost):
    """The truth of these tests, in ms: not proportional to operations, and stage 1 slower."""

    def forward(self, stage: int, *, rows: int, length: int) -> float:
        return 3 + stage + 5e4 * super().forward(stage, rows=rows, length=length)

    def backward(self, stage: int, *, rows: int, length: int) -> float:
        return 7 + 9e4 * CountedCost.forward(self, stage, rows=rows, length=length)

    def weight(self, stage: int, *, rows: int, length: int) -> float:
        return 1 + 2e4 * super().weight(stage, rows=rows, length=length)


SLOW = Slow(Sizes(), layers=[2, 2])


def timeline_of(problem: Problem, order: Order) -> Timeline:
    """The run of an order, one unit a millisecond; every op asks for its message when its rank is free."""
    result = replay(problem, order)
    rows = []
    for row in order.rows:
        free, timed = 0, []
        for op in row:
            start, end = round(result.start[op] * MS), round(result.end[op] * MS)
            first = (
                op.stage == 0 if op.kind == "F" else op.kind == "W" or op.stage == problem.model(op.model).stages - 1
            )
            timed.append(TimedOp(op, start, end, asked=None if first else free))
            free = end
        rows.append(tuple(timed))
    return Timeline(tuple(rows), columns=(0, 1))


def real_run(*models: Planned, split: bool = False, comm: float = 0.0) -> tuple[Problem, Timeline]:
    real = make_problem([replace(model, cost=SLOW) for model in models], split=split, comm=comm)
    return real, timeline_of(real, greedy(real) if split else serial_1f1b(real))


def run(profile: Profile, *models: Planned, split: bool = False, comm: float = 0.0, factor: float = 1.0) -> None:
    """A pass of these models whose ops take what SLOW says."""
    _, timeline = real_run(*models, split=split, comm=comm)
    rows = [[TimedOp(op, int(a * factor), int(b * factor), *rest) for op, a, b, *rest in row] for row in timeline.ranks]
    profile.add(models, make_problem(models, split=split), replace(timeline, ranks=tuple(map(tuple, rows))))


def profiled(*models: Planned, passes: int = 4, split: bool = False) -> Fits:
    profile = Profile()
    for _ in range(passes):
        run(profile, *models, split=split)
    return profile.fits({})


def test_a_quarter_of_wild_measurements_moves_the_line_by_little() -> None:
    random.seed(1)
    points = [(x, 2 + 3 * x + random.gauss(0, 0.01)) for x in (random.uniform(1, 9) for _ in range(60))]
    wild = [(x, y * 50) if k % 4 == 0 else (x, y) for k, (x, y) in enumerate(points)]
    fit = fit_line(wild)
    assert fit.rate == pytest.approx(3, abs=0.1)
    assert fit(5.0) == pytest.approx(17, rel=0.05)


def test_lines_give_no_negative_durations() -> None:
    assert fit_line([(1.0, 1.0), (2.0, 9.0), (3.0, 17.0)]) == Fit(0.0, 4.5, 2.0)  # would cross zero at 0.9
    assert fit_line([(1.0, 9.0), (2.0, 7.0), (3.0, 5.0)]) == Fit(7.0, 0.0, 2.0)
    assert fit_line([(0.0, 3.0), (0.0, 5.0), (0.0, 4.0)]) == Fit(4.0, 0.0, 0.0)


def test_one_size_alone_is_proportional() -> None:
    assert fit_line([(4.0, 8.0), (4.1, 8.1), (4.0, 8.0)]) == Fit(0.0, 2.0, 4.0)


@pytest.mark.parametrize("split", [False, True])
def test_problems_by_the_profile_have_the_durations_of_the_run(split: bool) -> None:
    models = measured([ACTOR, CRITIC], profiled(ACTOR, CRITIC, split=split))
    assert models is not None
    truth = make_problem([replace(model, cost=SLOW) for model in (ACTOR, CRITIC)], split=split)
    for mine, real in zip(make_problem(models, split=split).models, truth.models, strict=True):
        for kind in ("F", "B", "W") if split else ("F", "B"):
            for s in range(2):
                for m in range(mine.microbatches):
                    assert mine.duration(kind, s, m) == pytest.approx(real.duration(kind, s, m), abs=2e-3)


def test_copies_of_a_model_are_measured_as_one() -> None:
    """Two critics run beside an actor of twice their depth, the second one slower."""
    four = {"sizes": Sizes(), "layers": [1] * 4}
    models = [replace(ACTOR, pp=4, cost=CountedCost(**four)), replace(CRITIC, dp=2)]
    problem = make_problem([replace(models[0], cost=Slow(**four)), replace(models[1], cost=SLOW)])
    timeline = timeline_of(problem, serial_1f1b(problem))
    slower = {"actor": 0, "critic0": 0, "critic1": MS}
    rows = [[timed._replace(end=timed.end + slower[timed.op.model]) for timed in row] for row in timeline.ranks]
    profile = Profile()
    for _ in range(4):
        profile.add(models, problem, replace(timeline, ranks=tuple(map(tuple, rows))))
    fits = profile.fits({})
    assert measured(models, fits) is not None
    assert {name for name, _, _ in fits} <= {"actor", "critic", ""}
    alone = SLOW.forward(0, rows=2, length=8)
    assert alone < fits["critic", "F", 0](COUNTED.forward(0, rows=2, length=8)) < alone + 1.0


def test_lengths_not_seen_yet_are_read_off_the_line() -> None:
    models = measured([ACTOR], profiled(ACTOR, CRITIC))
    assert models is not None
    assert models[0].cost.forward(1, rows=5, length=8) == pytest.approx(SLOW.forward(1, rows=5, length=8), abs=2e-3)
    assert models[0].cost.activation(1, rows=5, length=8) == COUNTED.activation(1, rows=5, length=8)


def test_a_weight_part_never_split_off_is_its_counted_share() -> None:
    cost = MeasuredCost(COUNTED, "actor", profiled(ACTOR))
    share = COUNTED.weight(0, rows=2, length=8) / COUNTED.backward(0, rows=2, length=8)
    assert cost.weight(0, rows=2, length=8) == pytest.approx(share * cost.backward(0, rows=2, length=8))
    nothing = MeasuredCost(ConstantCost(0.0, 0.0), "actor", profiled(ACTOR))
    assert nothing.weight(0, rows=2, length=8) == 0.0


@pytest.mark.parametrize(("passes", "known"), [(0, False), (1, False), (2, False), (3, True)])
def test_nothing_is_believed_before_several_passes(passes: int, known: bool) -> None:
    assert (measured([LONG], profiled(LONG, passes=passes)) is not None) == known


def test_a_first_pass_is_left_out() -> None:
    profile = Profile()
    run(profile, replace(ACTOR, shapes=((9, 8),) * 40))  # most of all points
    for _ in range(2):
        run(profile, LONG)
    assert profile.fits({})["actor", "F", 0].typical == profiled(LONG)["actor", "F", 0].typical


def test_few_micro_batches_need_more_passes() -> None:
    one = replace(ACTOR, shapes=SHAPES[:1])
    assert measured([one], profiled(one, passes=6)) is None
    assert measured([one], profiled(one, passes=7)) is not None


def test_times_of_a_model_are_used_only_where_all_are_measured() -> None:
    fits = profiled(ACTOR)
    assert measured([ACTOR], fits) is not None
    assert measured([ACTOR, CRITIC], fits) is None


def test_fits_in_use_stay_until_the_run_is_a_tenth_slower() -> None:
    profile = Profile()
    for _ in range(4):
        run(profile, ACTOR)
    fits = profile.fits({})
    for factor, changed in ((1.05, False), (1.3, True)):
        for _ in range(40):
            run(profile, ACTOR, factor=factor)
        assert (profile.fits(fits)["actor", "B", 1] != fits["actor", "B", 1]) == changed


def test_delay_of_messages_is_what_ranks_waited_beyond_the_op_before() -> None:
    problem = make_problem([replace(model, cost=SLOW) for model in (ACTOR, CRITIC)], comm=2.5)
    delays = list(message_delays(timeline_of(problem, serial_1f1b(problem))))
    assert len(delays) >= 4
    assert delays == pytest.approx([2.5e-3] * len(delays), abs=1e-8)
    profile = Profile()
    for _ in range(8):
        run(profile, ACTOR, CRITIC, comm=2.5)
    assert message_time(profile.fits({})) == 2.5


def test_messages_of_a_first_pass_are_left_out() -> None:
    profile = Profile()
    assert len(list(message_delays(real_run(LONG, comm=40.0)[1]))) >= 6
    run(profile, LONG, comm=40.0)
    assert message_time(profile.fits({})) == 0.0


def test_messages_are_matched_within_a_replica() -> None:
    """Ranks 0, 1 hold column 0 and ranks 2, 3 column 1; replica 1 runs much later than replica 0."""
    problem = make_problem([replace(ACTOR, cost=SLOW)], comm=1.5)
    one = timeline_of(problem, serial_1f1b(problem)).ranks
    late = [tuple(TimedOp(op, a + 10**9, b + 10**9, q and q + 10**9) for op, a, b, q, _ in row) for row in one]
    both = Timeline((one[0], late[0], one[1], late[1]), columns=(0, 0, 1, 1))
    delays = list(message_delays(both))
    assert len(delays) >= 4
    assert delays == pytest.approx([1.5e-3] * len(delays), abs=1e-8)


def test_fits_survive_the_way_to_other_ranks() -> None:
    fits = {**profiled(ACTOR, CRITIC, split=True), MESSAGE: Fit(0.5, 0.0)}
    assert from_rows(json.loads(json.dumps(to_rows(fits)))) == fits
