"""Bad input of every kind, at every place: one line, exit code 1 or 2, never a traceback, nothing on stdout."""

import copy
import random

import pytest
import yaml

from schedules.cli import main

GOOD = {
    "ranks": 2,
    "comm": 0.1,
    "memory_cap": 4,
    "models": [
        {"name": "a", "placement": [0, 1], "microbatches": 2, "forward": 1, "backward": 2, "backward_weight": 1,
         "activation": 1},
        {"name": "b", "placement": [1, 0], "microbatches": 2, "forward": 1, "backward": 2},
    ],
}  # fmt: skip
ODD_VALUES = [
    None, True, -1, 0, 0.5, float("nan"), float("inf"), 1e308, 10**400, 1e-320, "x", "1", "", "a" * 100_000, [], {},
    [[]], [None], [[0, 0]], [0, 0, 0], [-1, 0], [5, 0], ["a", "b"], [1.5, 0], {"a": 1}, [[1], [2]], [1] * 1000, [[[1]]],
    4097, 3_000_000,
]  # fmt: skip
PLACES = [
    ("ranks",), ("comm",), ("memory_cap",), ("models",), ("models", 0), ("odd",), ("models", 0, "odd"), (1,),
    *(("models", 0, key) for key in GOOD["models"][0]),
]  # fmt: skip
ODD_FILES = [
    b"", b"# nothing\n", b"\xff\xfe\x00", b"\x00\x01\x02", "ranks: 2".encode("utf-16"), b"[", b"{a: b", b"hello",
    b"!!python/object:os.system {}", b"a: &a [*a]", b"? [a]\n: 1", b"{[1]: 2}", b"ranks: 2\nranks: 3",
    b"---\na: 1\n---\nb: 2", b"\t- x", b"ranks: 0x" + b"f" * 6000, b"ranks: " + b"9" * 5000, b"[" * 5000,
    b"ranks: 2023-99-99", b"%YAML 9.9\n---\na", b'a: "\\uD800"', b"models: *x", b"<<: [1]", b'ranks: !!int "x"',
]  # fmt: skip
ODD_TOKENS = ["a:F0", "a:B9", "z:F0", "a:X0", "a:F" + "9" * 5000, "a:F0@" + "1" * 5000, "", " ", "#", "é", "\0", "-1"]


@pytest.fixture
def files(tmp_path):
    """A good problem and a good order of it."""
    problem, order = tmp_path / "good.yaml", tmp_path / "good.csv"
    problem.write_text(yaml.safe_dump(GOOD))
    assert main(["solve", str(problem), "--method", "greedy", "--out", str(order), "--json"]) == 0
    return problem, order


def refusal(capsys, *args, longest=500):
    """Run a command that may be refused. Gives its exit code and its error line, after a look at both."""
    capsys.readouterr()
    try:
        code = main([str(arg) for arg in args])
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    if code == 0:
        assert err == ""
    else:
        assert (code in (1, 2), out, err.count("\n"), err[:7], len(err) < longest) == (True, "", 1, "error: ", True), (
            err
        )
    return code, err


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_odd_values_in_problems(files, tmp_path, capsys, place):
    refused = 0
    for value in ODD_VALUES:
        data = copy.deepcopy(GOOD)
        part = data
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value
        path = tmp_path / "odd.yaml"
        path.write_text(yaml.safe_dump(data))
        code, err = refusal(capsys, "bounds", path)
        assert f"{path}: " in err or code == 0
        refused += code != 0
    assert refused >= 17  # an absent or a small number is at home in some places


def test_whole_numbers_beyond_what_python_prints(files, tmp_path, capsys):
    for key in ("ranks: 2", "- 0", "microbatches: 2", "forward: 1", "name: a"):
        path = tmp_path / "odd.yaml"
        path.write_text(yaml.safe_dump(GOOD).replace(key, key.split()[0] + " 0x" + "f" * 6000, 1))
        code, err = refusal(capsys, "bounds", path)
        assert (code, "thousands of digits" in err) == (2, True)


@pytest.mark.parametrize("data", ODD_FILES, ids=lambda data: repr(data[:20]))
def test_odd_files_as_problem_and_as_order(files, tmp_path, capsys, data):
    path = tmp_path / "odd"
    path.write_bytes(data)
    assert refusal(capsys, "bounds", path)[0] == 2
    for command in ("replay", "draw"):
        code, err = refusal(capsys, command, files[0], path)
        assert (code, f"{path}: " in err) == (1, True)


def test_a_huge_rank_named_twice(files, tmp_path, capsys):
    huge = "0x" + "f" * 6000
    (tmp_path / "odd.yaml").write_text(yaml.safe_dump(GOOD).replace("- 0\n", f"- [{huge}, {huge}]\n", 1))
    code, err = refusal(capsys, "bounds", tmp_path / "odd.yaml")
    assert (code, "a rank is named twice in" in err) == (2, True)


def test_long_words_in_orders(files, capsys):
    problem, order = files
    text = order.read_text()
    for old, new in (("a:F0", "a" * 9000), ("\n0,", "\n" + "0" * 9000 + ","), ("\n1,", "\n1;" + "x" * 9000 + ",")):
        order.write_text(text.replace(old, new, 1))
        assert refusal(capsys, "replay", problem, order)[0] == 1


def test_a_byte_order_mark_is_no_error(files, capsys):
    for path in files:
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert refusal(capsys, "replay", *files)[0] == 0


@pytest.mark.parametrize("path", [".", "none", "good.yaml/x", "", "a" * 5000, "a\nb"])
def test_odd_paths_everywhere(files, tmp_path, monkeypatch, capsys, path):
    monkeypatch.chdir(tmp_path)
    problem, order = files
    sweep = ["sweep", "--depths", "2", "--microbatches", "2", "--methods", "greedy"]
    for args in (
        ["bounds", path],
        ["solve", path, "--method", "greedy"],
        ["replay", path, order],
        ["replay", problem, path],
        ["draw", problem, path],
        ["draw", problem, order, "--out", path],
        ["draw", problem, order, "--out", "no/" + path + ".svg"],
        ["solve", problem, "--method", "greedy", "--out", "no/" + path],
        ["solve", problem, "--method", "greedy", "--out-problem", "no/" + path],
        [*sweep, "--html", "no/" + path],
        [*sweep, "--out", "good.yaml/" + path],
    ):
        assert refusal(capsys, *args, longest=900)[0] in (1, 2), args


def test_odd_orders(files, tmp_path, capsys):
    """Orders with ops lost, doubled, swapped, cut and replaced, each under a header that counts what is left."""
    problem, order = files
    text = order.read_text()
    rnd = random.Random(0)
    path = tmp_path / "odd.csv"
    refused = 0
    for _ in range(400):
        header, *rows = text.splitlines()
        cells = [row.split(",") for row in rows]
        for _ in range(rnd.randint(1, 2)):
            change(rnd, rnd.choice(cells))
        count = sum(len(row) - 1 for row in cells)
        header = header.replace(f"{sum(row.count(',') for row in rows)} ops", f"{count} ops")
        path.write_text("\n".join([header, *map(",".join, cells)]), encoding="utf-8")
        code, err = refusal(capsys, "replay", problem, path, "--json")
        assert code in (0, 1)
        assert f"{path}: " in err or code == 0
        refused += code
    assert refused > 200


def change(rnd, row):
    """One fault in a row, in place."""
    at = rnd.randrange(len(row))
    kind = rnd.randrange(5)
    if kind == 0:
        row[at : at + 1] = []
    elif kind == 1:
        row.insert(at, rnd.choice([*row, ""]))
    elif kind == 2:
        row[at] = rnd.choice(ODD_TOKENS)
    elif kind == 3:
        other = rnd.randrange(len(row))
        row[at], row[other] = row[other], row[at]
    else:
        row[at:] = [row[at][: rnd.randrange(5)]]
    row[:] = row or [""]


@pytest.mark.parametrize("number", ["0", "9" * 5000, "8"])
def test_odd_headers(files, capsys, number):
    problem, order = files
    header, _, rows = order.read_text().partition("\n")
    for word in ("ops", "ranks"):
        count = header.split(f" {word}")[0].split()[-1]
        order.write_text(header.replace(f"{count} {word}", f"{number} {word}") + "\n" + rows)
        assert refusal(capsys, "replay", problem, order)[0] == 1
    order.write_text(header.replace("problem ", "problem " + "9" * 9000) + "\n" + rows)
    assert refusal(capsys, "replay", problem, order)[0] == 1


@pytest.mark.parametrize("forward", [1e-320, 1e-300, 1e-9, 1e99])
def test_any_scale_of_time_is_solved_and_drawn(tmp_path, capsys, forward):
    problem, order = tmp_path / "p.yaml", tmp_path / "o.csv"
    model = {"name": "a", "placement": [0, 1], "microbatches": 2, "forward": forward, "backward": [1, forward]}
    problem.write_text(yaml.safe_dump({"ranks": 2, "comm": forward, "models": [model]}))
    assert refusal(capsys, "solve", problem, "--method", "greedy", "--out", order)[0] == 0
    for out in ([], ["--out", tmp_path / "o.svg"], ["--out", tmp_path / "o.png"], ["--out", tmp_path / "o.json"]):
        assert refusal(capsys, "draw", problem, order, *out)[0] == 0
