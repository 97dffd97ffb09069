"""Problem files: round trip, strict keys, one-line errors, and the published problems."""

import pytest
import yaml

from schedules.problem import Problem, ProblemError
from schedules.problem_file import save_problem
from tests.schedules.published import published
from tests.schedules.strategies import for_all, problems

GOOD = {"ranks": 1, "models": [{"name": "a", "placement": [0], "microbatches": 1, "forward": 1}]}


@for_all(problems())
def test_every_form_survives_a_round_trip_through_yaml(problem):
    again = Problem.from_dict(yaml.safe_load(yaml.safe_dump(problem.to_dict())))
    assert again == problem
    assert again.digest == problem.digest


def test_saved_file_loads_as_the_same_problem(tmp_path):
    save_problem(tmp_path / "p.yaml", problem=published(0))
    assert Problem.load(tmp_path / "p.yaml") == published(0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "problem: expected a mapping with the keys ranks, comm, memory_cap, models, got NoneType"),
        ([], "problem: expected a mapping"),
        (GOOD | {"colour": 1}, "problem: unknown key 'colour'; known are ranks, comm, memory_cap, models"),
        ({"ranks": 2}, "problem: the key 'models' is missing"),
        (GOOD | {"models": 5}, "models: expected a list, got 5"),
        (GOOD | {"models": [{"name": "a"}]}, r"models\[0\]: the key 'placement' is missing"),
        (GOOD | {"models": [GOOD["models"][0] | {"time": 1}]}, r"models\[0\]: unknown key 'time'"),
        (GOOD | {"memory_cap": [1]}, r"memory_cap: expected a number, got \[1\]"),
    ],
)
def test_bad_key_is_named(data, message):
    with pytest.raises(ProblemError, match=f"^{message}"):
        Problem.from_dict(data)


@pytest.mark.parametrize("text", ["ranks: [1", "\x00", "a: b: c", "{ranks: 1, models: 3}", "\t- x"])
def test_bad_file_gets_one_line_that_names_it(tmp_path, text):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(ProblemError, match=r"p\.yaml: ") as caught:
        Problem.load(path)
    assert "\n" not in str(caught.value)


def test_missing_file_is_named():
    with pytest.raises(ProblemError, match=r"^nowhere\.yaml: No such file"):
        Problem.load("nowhere.yaml")


def test_published_critic_copies_lie_reversed_beside_the_actor():
    problem = published(0)
    assert problem.model("actor").placement == tuple(range(8))
    assert [problem.model(f"critic{i}").placement for i in (0, 1)] == [(3, 2, 1, 0), (7, 6, 5, 4)]
    assert published(9).model("critic").placement == tuple(reversed(range(16)))


GOOD_TEXT = "ranks: 1\nmodels:\n  - {name: a, placement: [0], microbatches: 1, forward: 1}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD_TEXT + "ranks: 2\n", "line 4: the key 'ranks' stands already in line 1"),
        (GOOD_TEXT.replace("name: a", "name: a, name: a"), "line 3: the key 'name' stands already in line 3"),
        (GOOD_TEXT + "x: {1: 2, 1: 3}\n", "line 4: the key '1' stands already in line 4"),
    ],
)
def test_doubled_key_is_named_with_its_lines(tmp_path, text, message):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(ProblemError, match=rf"p\.yaml: {message}$"):
        Problem.load(path)


def test_merged_mappings_may_be_overridden(tmp_path):
    path = tmp_path / "p.yaml"
    second = "  - {<<: *a, name: b, forward: 2}\n"
    path.write_text(GOOD_TEXT.replace("- {", "- &a {") + second)
    assert [(m.name, m.forward) for m in Problem.load(path).models] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e3", 1000), ("1E+3", 1000), ("2.5e-3", 0.0025), ("1.e2", 100), (".5e1", 5), ("+1e2", 100), ("1.5e+3", 1500)],
)
def test_numbers_are_written_as_in_yaml_1_2(tmp_path, text, value):
    path = tmp_path / "p.yaml"
    path.write_text(GOOD_TEXT.replace("forward: 1", f"forward: {text}"))
    assert Problem.load(path).models[0].forward == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forward: 1e308", "a.forward: expected a number of at most 1e.100, got 1e.308; take a larger unit"),
        ("forward: '5'", "a.forward: expected a number, got the text '5'; write numbers without quotes"),
        (f"forward: 0x{'f' * 9000}", "a.forward: expected a number of at most 1e.100, got a number of thousands"),
        (f"forward: {'9' * 9000}", "not YAML"),
        ("forward: 2026-99-99", "not YAML"),
        ("forward: !!timestamp x", "not YAML"),
        ("forward: !!bool x", "not YAML"),
        ("forward: !!int x", "not YAML"),
        ("forward: &a [*a]", r"a.forward\[0\]: 1 entries for 2 micro-batches"),
        ("forward: 1e400", "a.forward: expected a finite number of at least 0, got inf"),
        ("forward: " + "[" * 5000, "nested too deeply"),
        ("forward: " + "{a: " * 5000, "nested too deeply"),
        ("forward: " + "- " * 5000, "(not YAML|nested too deeply)"),
        ("? {a: b}\n    : 3", "not YAML"),
    ],
)
def test_odd_values_get_one_short_line(tmp_path, text, message):
    path = tmp_path / "p.yaml"
    path.write_text(f"ranks: 1\nmodels:\n  - name: a\n    placement: [0]\n    microbatches: 2\n    {text}\n")
    with pytest.raises(ProblemError, match=message) as caught:
        Problem.load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_aliases_that_unfold_to_a_billion_entries_are_refused_at_once(tmp_path):
    path = tmp_path / "p.yaml"
    lists = ["&a0 [1, 1]", *(f"&a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12))]
    path.write_text(GOOD_TEXT + "memory_cap: [" + ", ".join(lists) + "]\n")
    with pytest.raises(ProblemError, match="memory_cap: expected a number") as caught:
        Problem.load(path)
    assert len(str(caught.value)) < 10_000


@pytest.mark.parametrize("text", ["", "# a comment\n", "---\n", "null"])
def test_an_empty_file_is_said_to_be_empty(tmp_path, text):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(ProblemError, match=r"p\.yaml: the file is empty; it should hold the keys ranks, comm,"):
        Problem.load(path)
