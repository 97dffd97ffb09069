"""Runs: only what a file lacks, in this process or in others with the same result."""

import pytest

from schedules.bench import runner
from schedules.bench.lines import read
from schedules.bench.runner import chosen, run_table
from schedules.bench.table import Outcome, RowError, Settings, Table
from schedules.found.room import load_all

SETTINGS = Settings("greedy", 5, 100, 1, 3)


def test_rows_that_are_there_are_not_run_again(tmp_path, monkeypatch):
    ran = []

    def run(key, settings):
        ran.append(key)
        if key == "c":
            raise KeyboardInterrupt
        return Outcome({"seconds": 1})

    monkeypatch.setitem(runner.TABLES, "toy", Table(("a", "b", "c"), run, str, 1))
    out = tmp_path / "toy.jsonl"
    with pytest.raises(KeyboardInterrupt):
        list(run_table("toy", out=out, settings=SETTINGS))
    monkeypatch.setitem(runner.TABLES, "toy", Table(("a", "b", "d"), run, str, 1))
    assert list(run_table("toy", out=out, settings=SETTINGS)) == ["toy d: 1"]
    assert ran == ["a", "b", "c", "d"]
    assert [line["row"] for line in read([out])] == ["a", "b", "d"]


def test_rows_side_by_side_find_the_same_and_orders_are_kept(tmp_path):
    only = ["exp2*", "exp5 cap 1.00"]
    for jobs in (1, 2):
        out, room = tmp_path / f"{jobs}.jsonl", tmp_path / f"room{jobs}"
        said = list(run_table("front", out=out, settings=SETTINGS, only=only, jobs=jobs, room=room))
        assert len(said) == 4
    both = [read([tmp_path / f"{jobs}.jsonl"]) for jobs in (1, 2)]
    alone, beside = ({line["row"]: line["facts"]["makespan"] for line in lines} for lines in both)
    assert alone == beside
    assert set(alone) == {"exp2 cap 1.00", "exp2 cap 1.10", "exp2 cap 1.25", "exp5 cap 1.00"}
    kept = load_all(tmp_path / "room2")
    assert [(k.name, k.record.memory_cap, k.record.seed) for k in kept] == [
        ("exp2", 15.6, 3),
        ("exp2", 17.16, 3),
        ("exp2", 19.5, 3),
        ("exp5", 15.6, 3),
    ]
    assert [k.order for k in kept] == [k.order for k in load_all(tmp_path / "room1")]


def test_patterns_fit_whole_rows_or_their_problems():
    keys = ["exp1 a", "exp1 b", "exp10 a"]
    assert chosen(keys, only=[]) == keys
    assert chosen(keys, only=["exp1"]) == keys[:2]
    assert chosen(keys, only=["* a"]) == ["exp1 a", "exp10 a"]
    with pytest.raises(RowError, match="--only exp2: no such row; there are exp1 a, exp1 b, exp10 a"):
        chosen(keys, only=["exp1", "exp2"])
