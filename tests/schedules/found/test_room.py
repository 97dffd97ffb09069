"""The room: what is kept is read back with its problem, in a sequence that reads well."""

import pytest

from schedules.builders import greedy
from schedules.found.keep import keep
from schedules.found.room import ROOM, load, load_all, order_files
from schedules.order import OrderError
from schedules.order_file import save_order
from schedules.problem import Model, Problem
from tests.schedules.published import FOLDER

PROBLEM = Problem(2, (Model("a", [0, 1], 2, 1, 2, activation=1), Model("b", [1, 0], 2, 1, 2, activation=1)))


def kept_in(room, problem, name):
    return keep(problem, greedy(problem), name=name, method="greedy", seed=0, seconds=0.1, room=room)


def test_orders_come_back_by_name_then_cap(tmp_path):
    longer = Problem(2, (Model("a", [0, 1], 3, 1, 2, activation=1),))
    kept = [kept_in(tmp_path, problem, name) for problem, name in ((longer, "p10"), (PROBLEM.with_cap(4), "p9"))]
    kept += [kept_in(tmp_path, PROBLEM.with_cap(cap), "p9") for cap in (10, None)]
    assert load_all(tmp_path) == [kept[1], kept[2], kept[3], kept[0]]
    assert [path.name for path in order_files(tmp_path)] == ["cap4.csv", "cap10.csv", "free.csv", "free.csv"]


def test_order_without_a_record_is_refused(tmp_path):
    path = kept_in(tmp_path, PROBLEM, "p").path
    save_order(path, problem=PROBLEM, order=greedy(PROBLEM))
    with pytest.raises(OrderError, match=r"free\.csv: line 2: a kept order says what it amounts to"):
        load(path)


def test_package_keeps_orders_of_published_problems_and_nothing_else_lies_there():
    kept = load_all()
    assert len({k.problem.digest for k in kept}) >= 4
    expected = {k.path for k in kept} | {k.path.with_name("problem.yaml") for k in kept}
    assert {path for path in ROOM.rglob("*") if path.is_file()} == expected


@pytest.mark.parametrize("name", sorted({path.parent.name for path in order_files()}))
def test_kept_problem_named_like_a_published_one_is_that_problem(name):
    if (FOLDER / f"{name}.yaml").exists():
        assert Problem.load(ROOM / name / "problem.yaml") == Problem.load(FOLDER / f"{name}.yaml")
