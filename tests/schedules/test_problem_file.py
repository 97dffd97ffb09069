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
