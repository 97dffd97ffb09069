"""The command line: JSON keys, exit codes, one-line errors, files that come back."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from schedules.cli import main
from tests.schedules.published import FOLDER

EXP5 = str(FOLDER / "exp5.yaml")
KEYS = [
    "makespan",
    "lower_bound",
    "proved_optimal",
    "bubble_ratio",
    "max_peak_memory",
    "peak_memory",
    "method",
    "seconds",
]


def run(capsys, *args):
    code = main([str(a) for a in args])
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture
def order(tmp_path, capsys):
    path = tmp_path / "order.csv"
    assert run(capsys, "solve", EXP5, "--method", "greedy", "--memory-cap", "15.6", "--out", path)[0] == 0
    return path


def test_solve_and_replay_print_the_same_facts(order, capsys):
    code, out, err = run(capsys, "replay", EXP5, order, "--json")
    facts = json.loads(out)
    assert (code, err, list(facts)) == (0, "", KEYS)
    again = json.loads(run(capsys, "solve", EXP5, "--method", "greedy", "--memory-cap", "15.6", "--json")[1])
    same = ["makespan", "lower_bound", "proved_optimal", "bubble_ratio", "max_peak_memory", "peak_memory"]
    assert [facts[k] for k in same] == [again[k] for k in same]
    assert facts["max_peak_memory"] == 15.6


def test_bounds_prints_the_bound_and_null_for_what_needs_an_order(capsys):
    facts = json.loads(run(capsys, "bounds", EXP5, "--json")[1])
    assert (list(facts), facts["lower_bound"], facts["makespan"]) == (KEYS, 225, None)


def test_plain_output_is_readable(order, capsys):
    assert "makespan         " in run(capsys, "replay", EXP5, order)[1]
    assert run(capsys, "bounds", EXP5)[1].splitlines()[0].split() == ["lower_bound", "225"]
    assert "rank 7  |" in run(capsys, "solve", EXP5, "--method", "greedy")[1]


@pytest.mark.parametrize(("name", "magic"), [("o.svg", b"<?xml"), ("o.png", b"\x89PNG"), ("o.json", b'{"traceEvents"')])
def test_draw_writes_the_format_of_the_name(order, tmp_path, capsys, name, magic):
    assert run(capsys, "draw", EXP5, order, "--out", tmp_path / name) == (0, "", "")
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_draw_without_a_file_prints_the_whole_grid_and_solve_one_line_a_rank(order, capsys):
    lines = run(capsys, "draw", EXP5, order)[1].splitlines()
    whole = "".join(line.partition("|")[2] for line in lines if line.startswith("rank 0 "))
    assert len(whole) == json.loads(run(capsys, "replay", EXP5, order, "--json")[1])["makespan"]
    assert run(capsys, "solve", EXP5, "--method", "greedy")[1].count("\nrank ") == 8


def test_draw_takes_a_cap_as_solve_does(order, tmp_path, capsys):
    svg = tmp_path / "o.SVG"
    assert run(capsys, "draw", EXP5, order, "--memory-cap", "15.6", "--out", svg) == (0, "", "")
    assert "(cap 15.6)" in svg.read_text()
    code, out, err = run(capsys, "draw", EXP5, order, "--memory-cap", "15.5")
    assert (code, out) == (1, "")
    assert err == f"error: {order}: rank 0: peak memory 15.6 is above memory_cap 15.5\n"


def broken(tmp_path, **change):
    data = yaml.safe_load(Path(EXP5).read_text()) | change
    path = tmp_path / "broken.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def test_bad_problems_exit_with_2_and_one_line(tmp_path, capsys):
    for change, message in (
        ({"ranks": 4}, "actor.placement[4]: rank 4 is outside 0..3"),
        ({"comm": -1}, "comm: expected a finite number of at least 0, got -1"),
        ({"color": "red"}, "problem: unknown key 'color'"),
        ({"memory_cap": 1}, "memory_cap: 1 is below 1.95"),
    ):
        code, out, err = run(capsys, "bounds", broken(tmp_path, **change))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"broken.yaml: {message}" in err


def test_bad_orders_exit_with_1_and_one_line(order, tmp_path, capsys):
    text = order.read_text()
    for name, broken_text, message in (
        ("cut", text[: len(text) // 2], "the file was cut short"),
        ("digest", text.replace("problem ", "problem 0"), "the order was made for problem 0"),
        ("doubled", text.replace("actor:F1,", "actor:F0,", 1), "rank 0, position"),
        ("early", text.replace("actor:F0", "@").replace("actor:B0", "actor:F0").replace("@", "actor:B0"), "wait"),
        ("empty", "", "line 1: no order header"),
    ):
        path = tmp_path / f"{name}.csv"
        path.write_text(broken_text)
        code, out, err = run(capsys, "replay", EXP5, path)
        assert (name, code, out, err.count("\n")) == (name, 1, "", 1)
        assert message in err


def test_cap_override_that_is_no_number_or_too_low(capsys):
    assert run(capsys, "solve", EXP5, "--memory-cap", "nan")[0] == 2
    assert run(capsys, "solve", EXP5, "--memory-cap", "1.9")[0] == 2


def test_jitter_wants_one_placement(capsys):
    args = ["solve", EXP5, "--method", "greedy", "--jitter", "0.1"]
    assert run(capsys, *args, "--placement", "auto")[0] == 2
    assert run(capsys, *args)[0] == 0


def test_search_limits_reach_the_search(capsys):
    args = [
        "solve",
        EXP5,
        "--method",
        "auto",
        "--steps",
        "20000",
        "--time-limit",
        "60",
        "--workers",
        "1",
        "--seed",
        "2",
    ]
    first, second = (json.loads(run(capsys, *args, "--memory-cap", "16.7", "--json")[1]) for _ in range(2))
    assert first.pop("seconds") != second.pop("seconds")
    assert first == second
    assert first["makespan"] < 230  # what greedy finds


def test_order_over_another_placement_replays_against_the_problem_as_placed(tmp_path, capsys):
    placed, order = tmp_path / "v.yaml", tmp_path / "v.csv"
    args = ["--method", "greedy", "--placement", "v", "--out", order, "--out-problem", placed, "--json"]
    solved = json.loads(run(capsys, "solve", EXP5, *args)[1])
    assert json.loads(run(capsys, "replay", placed, order, "--json")[1])["makespan"] == solved["makespan"]
    code, _, err = run(capsys, "replay", EXP5, order)
    assert code == 1
    assert "the order was made for problem" in err


def test_unwritable_out_is_one_line(order, capsys):
    for args in (["solve", EXP5, "--out"], ["solve", EXP5, "--out-problem"], ["draw", EXP5, str(order), "--out"]):
        with pytest.raises(SystemExit) as caught:
            main([*args, "/nowhere/o.svg"])
        err = capsys.readouterr().err
        assert (caught.value.code, err.count("\n")) == (2, 1)
        assert "'/nowhere/o.svg': there is no folder '/nowhere'; make it first" in err


OUT_OF_RANGE = [
    *(f"--seed {value}" for value in ("99999999999999999999", "-1", "0.5", "x")),
    *(f"--steps {value}" for value in ("-1", "9" * 5000)),
    *(f"--workers {value}" for value in ("-1", "0", "1000000")),
    *(f"--time-limit {value}" for value in ("0", "-5", "nan", "inf", "1e300")),
    *(f"--jitter {value}" for value in ("-0.1", "nan", "1e9")),
]


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["solve"],
        ["solve", EXP5, "--method", "magic"],
        ["draw", EXP5, "o", "--out", "x.gif"],
        ["magic"],
        ["replay", EXP5],
        ["bounds", EXP5, "--colour", "red"],
        *(["solve", EXP5, *option.split()] for option in OUT_OF_RANGE),
        *(["sweep", "--out", "x", *option.split()] for option in OUT_OF_RANGE[:-3]),
        ["sweep", "--out", "x", "--depths", "99999999999"],
        ["sweep", "--out", "x", "--microbatches", "0"],
        ["sweep", "--out", "x", "--actor", "1e308"],
    ],
)
def test_bad_command_lines_exit_with_2_and_one_line(args, capsys):
    with pytest.raises(SystemExit) as caught:
        main(args)
    err = capsys.readouterr().err
    assert (caught.value.code, err.count("\n"), err[:7]) == (2, 1, "error: ")


@pytest.mark.parametrize("option", ["--seed 1000000000", "--steps 0", "--workers 1 --jitter 1", "--time-limit 1e9"])
def test_values_at_the_ends_of_their_ranges_are_taken(option, capsys):
    assert run(capsys, "solve", EXP5, "--method", "greedy", *option.split())[0] == 0


def test_module_runs_and_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m schedules solve {EXP5} --method greedy | head -c 10"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout[:8], done.stderr) == (0, "makespan", "")


def test_package_runs_without_torch():
    code = "import sys; sys.modules['torch'] = None; import schedules.cli"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_models_kept_apart_follow_each_other_on_every_rank(capsys, tmp_path):
    out = tmp_path / "apart.csv"
    limits = ("--steps", "4000", "--workers", "1")
    code, text, _ = run(capsys, "solve", EXP5, "--method", "tabu", "--apart", *limits, "--out", out, "--json")
    assert (code, json.loads(text)["method"]) == (0, "tabu-apart")
    for row in out.read_text(encoding="utf-8").splitlines():
        if not row.startswith("#"):
            models = [op.split(":")[0] for op in row.replace(",", " ").split() if ":" in op]
            assert models == sorted(models)  # actor, then critic


@pytest.mark.parametrize("other", [("--jitter", "0.1"), ("--placement", "auto"), ("--method", "greedy")])
def test_models_apart_with_what_cannot_go_along_is_refused(capsys, other):
    code, _, err = run(capsys, "solve", EXP5, "--apart", *other)
    assert code == 2
    assert err.count("\n") == 1
    assert "--apart" in err


@pytest.mark.parametrize("name", ["", "a/b", "exp8"])
def test_name_to_keep_by_is_checked_before_the_search(capsys, monkeypatch, name):
    monkeypatch.setattr("schedules.cli.solve", lambda *_, **__: pytest.fail("searched"))
    code, _, err = run(capsys, "solve", FOLDER / "exp2.yaml", "--placement", "v", "--keep", name)
    assert (code, err.count("\n")) == (2, 1)
    assert "name" in err
