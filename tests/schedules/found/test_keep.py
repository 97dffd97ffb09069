"""Keeping: an order replaces another of the same problem and cap only where it is better."""

import pytest

from schedules.builders import gpipe, greedy, serial_1f1b
from schedules.found.keep import keep
from schedules.found.room import load_all
from schedules.found.verify import verify
from schedules.order import OrderError
from schedules.problem import Model, Problem, ProblemError

PROBLEM = Problem(2, (Model("a", [0, 1], 3, 1, 2, activation=1), Model("b", [1, 0], 3, 1, 2, activation=1)))
SERIAL, GPIPE, FUSED = (build(PROBLEM) for build in (serial_1f1b, gpipe, greedy))


def kept(room, order, *, problem=PROBLEM, name="p", method="serial", bound=0.0):
    result = keep(problem, order, name=name, method=method, seed=3, seconds=0.5, proved_bound=bound, room=room)
    for each in load_all(room):
        verify(each)
    return result


def test_shorter_order_replaces_a_longer_one_and_never_the_other_way(tmp_path):
    first = kept(tmp_path, SERIAL)
    better = kept(tmp_path, FUSED, method="greedy")
    assert better.record.makespan < first.record.makespan
    assert kept(tmp_path, SERIAL) is None
    assert load_all(tmp_path) == [better]
    assert (better.record.method, better.record.seed, better.record.seconds) == ("greedy", 3, 0.5)


def test_of_equally_short_orders_the_one_of_less_memory_stays(tmp_path):
    first = kept(tmp_path, GPIPE)
    better = kept(tmp_path, SERIAL)
    assert better.record.makespan == first.record.makespan
    assert better.record.peak_memory < first.record.peak_memory
    assert kept(tmp_path, GPIPE) is None


def test_same_order_again_changes_nothing(tmp_path):
    path = kept(tmp_path, SERIAL).path
    before = path.stat().st_mtime_ns
    assert kept(tmp_path, SERIAL) is None
    assert path.stat().st_mtime_ns == before


def test_each_cap_has_its_own_best_order(tmp_path):
    kept(tmp_path, FUSED)
    assert kept(tmp_path, SERIAL, problem=PROBLEM.with_cap(2)).path.name == "cap2.csv"
    assert len(load_all(tmp_path)) == 2


def test_higher_proved_bound_stays_whichever_order_does(tmp_path):
    best = kept(tmp_path, SERIAL)
    bound = best.record.makespan - 0.5
    raised = kept(tmp_path, GPIPE, method="gpipe", bound=bound)
    assert (raised.order, raised.record.lower_bound, raised.record.method) == (best.order, bound, "serial")
    assert kept(tmp_path, SERIAL, bound=bound - 0.25) is None
    assert kept(tmp_path, SERIAL, bound=best.record.makespan).record.proved_optimal


def test_problem_keeps_the_name_it_was_first_given(tmp_path):
    kept(tmp_path, SERIAL, name="first")
    assert kept(tmp_path, FUSED, name="second").name == "first"


def test_name_of_another_problem_and_names_that_lead_away_are_refused(tmp_path):
    other = Problem(2, (Model("a", [0, 1], 3, 1, 2),))
    kept(tmp_path, SERIAL)
    with pytest.raises(ProblemError, match=rf"name 'p': problem {PROBLEM.digest} is kept by it, this one is"):
        kept(tmp_path, serial_1f1b(other), problem=other)
    for name in ("../p", "a/b", "", ".."):
        with pytest.raises(ProblemError, match="expected letters, digits"):
            kept(tmp_path, serial_1f1b(other), problem=other, name=name)


def test_invalid_order_is_never_kept(tmp_path):
    with pytest.raises(OrderError, match="peak memory 3 is above memory_cap 2"):
        kept(tmp_path, GPIPE, problem=PROBLEM.with_cap(2))
    assert load_all(tmp_path) == []


def test_record_that_the_order_to_keep_contradicts_is_named(tmp_path):
    path = kept(tmp_path, SERIAL).path
    text = path.read_text(encoding="utf-8")
    bound = text.split("lower bound ")[1].split(",")[0]
    path.write_text(text.replace(f"lower bound {bound}", "lower bound 1000"), encoding="utf-8")
    with pytest.raises(OrderError, match=r"p.*\.csv: its record .* contradicts"):
        keep(PROBLEM, FUSED, name="p", method="greedy", seed=0, seconds=0.0, room=tmp_path)


def test_room_that_is_a_file_is_refused(tmp_path):
    room = tmp_path / "file"
    room.touch()
    with pytest.raises(ProblemError, match="is not a folder"):
        keep(PROBLEM, FUSED, name="p", method="greedy", seed=0, seconds=0.0, room=room)
