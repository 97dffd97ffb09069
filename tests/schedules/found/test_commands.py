"""found, keep and solve --keep: one command adds an order, one lists what is there."""

import json

import pytest

from schedules.cli import main
from schedules.found.room import load_all
from schedules.order_file import save_order
from tests.schedules.published import FOLDER

EXP5 = str(FOLDER / "exp5.yaml")


def run(capsys, *args):
    code = main([str(a) for a in args])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture
def order(tmp_path, capsys):
    assert run(capsys, "solve", EXP5, "--method", "serial", "--memory-cap", "15.6", "--out", tmp_path / "o.csv")[0] == 0
    return tmp_path / "o.csv"


def keep(capsys, order, room, *more):
    return run(capsys, "keep", EXP5, order, "--method", "serial", "--seed", "4", "--room", room, *more)


def test_keep_adds_an_order_once(order, tmp_path, capsys):
    room, cap = tmp_path / "room", ("--memory-cap", "15.6")
    assert keep(capsys, order, room, *cap) == (0, "kept exp5/cap15.6.csv: makespan 301, peak 15.6\n", "")
    assert keep(capsys, order, room, *cap) == (0, "not kept: an order at least as good is there\n", "")
    assert keep(capsys, order, room, "--name", "x")[1].startswith("kept exp5/free.csv")


def test_found_lists_records_as_table_and_as_json(order, tmp_path, capsys):
    room = tmp_path / "room"
    keep(capsys, order, room, "--memory-cap", "15.6", "--seconds", "2")
    listed = json.loads(run(capsys, "found", "--room", room, "--json")[1])
    facts = {"name": "exp5", "ranks": 8, "memory_cap": 15.6, "makespan": 301, "lower_bound": 225, "seconds": 2}
    assert len(listed) == 1
    assert facts.items() <= listed[0].items()
    assert (listed[0]["proved_optimal"], listed[0]["bound_from"]) == (False, "computed")
    header, row = run(capsys, "found", "--room", room)[1].splitlines()
    assert dict(zip(header.split(), row.split(), strict=True)) == {
        "name": "exp5",
        "memory_cap": "15.6",
        "makespan": "301",
        "lower_bound": "225",
        "proved_optimal": "no",
        "peak_memory": "15.6",
        "method": "serial",
        "seed": "4",
        "seconds": "2",
    }


def test_found_verifies_on_demand_and_names_the_file(order, tmp_path, capsys):
    room = tmp_path / "room"
    keep(capsys, order, room)
    kept = load_all(room)[0]
    save_order(kept.path, problem=kept.problem, order=kept.order, record=kept.record)
    assert run(capsys, "found", "--room", room, "--verify")[0] == 0
    kept.path.write_text(kept.path.read_text().replace("makespan 301", "makespan 300"))
    code, _, err = run(capsys, "found", "--room", room, "--verify")
    assert (code, err) == (1, f"error: {kept.path}: line 2: makespan 300 is said, 301 is what replay gives\n")


def test_solve_keeps_what_it_found_where_told_to(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("schedules.cli.ROOM", tmp_path)
    solve = ["solve", EXP5, "--method", "serial", "--seed", "9", "--json"]
    assert run(capsys, *solve)[2] == ""
    assert load_all(tmp_path) == []
    code, out, err = run(capsys, *solve, "--keep", "five")
    assert (code, err) == (0, "kept five/free.csv: makespan 301, peak 15.6\n")
    assert json.loads(out)["makespan"] == 301
    assert [(k.name, k.record.method, k.record.seed) for k in load_all(tmp_path)] == [("five", "serial", 9)]


def test_solve_starts_from_an_order_only_where_told_to(order, capsys):
    solve = ["solve", EXP5, "--memory-cap", "15.6", "--method", "anneal", "--steps", "0", "--json"]
    greedy, started = (json.loads(run(capsys, *solve, *more)[1]) for more in ((), ("--start", order)))
    assert greedy["makespan"] < started["makespan"] == 301
    code, _, err = run(capsys, *solve, "--start", order, "--jitter", "0.1")
    assert (code, err[:16], err.count("\n")) == (2, "error: --start: ", 1)


def test_bad_command_lines_exit_with_2_and_one_line(capsys):
    for args in (["keep", EXP5, "o.csv"], ["keep", EXP5, "o", "--method", "luck", "--seed", "1"], ["found", "exp5"]):
        with pytest.raises(SystemExit) as caught:
            main(args)
        err = capsys.readouterr().err
        assert (caught.value.code, err.count("\n"), err[:7]) == (2, 1, "error: ")


def test_a_room_that_is_no_folder_is_one_line_and_exit_code_2(tmp_path, capsys):
    (tmp_path / "file").touch()
    for name, told in (("none", "there is no such folder"), ("file", "not a folder")):
        for more in ((), ("--json",), ("--verify",)):
            code, out, err = run(capsys, "found", "--room", str(tmp_path / name), *more)
            assert (code, out, err) == (2, "", f"error: {tmp_path / name}: {told}\n")
    assert run(capsys, "found", "--room", str(tmp_path), "--json")[:2] == (0, "[]\n")  # an empty room is a room
