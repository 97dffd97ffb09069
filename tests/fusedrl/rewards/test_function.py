from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fusedrl.rewards.function import (
    VERIFIER,
    InvalidScore,
    RewardFunctionError,
    check_file,
    describe,
    load_function,
    read_score,
)

GOOD = "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n    return 1.0\n"


def written(folder: Path, text: str, *, name: str = "reward.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_function_is_loaded_by_path_and_name(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD.replace("compute_score", "mine"))
    assert load_function(file, name="mine")(data_source="", solution_str="", ground_truth="", extra_info=None) == 1.0


def test_file_may_import_its_neighbours_and_define_dataclasses(tmp_path: Path) -> None:
    written(tmp_path, "SCORE = 0.25\n", name="neighbour_of_the_reward.py")
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\nimport neighbour_of_the_reward as n\n"
    )
    text += "@dataclass\nclass Point:\n    x: int\n"
    file = written(tmp_path, text + GOOD.replace("1.0", "n.SCORE"))
    assert load_function(file)("", "", "") == 0.25


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", r"name=compute_score: .*reward.py has no such name; it defines no function"),
        ("def score(a):\n    pass\ndef other():\n    pass\n", r"has no such name; it defines score, other"),
        ("from os.path import join\ncompute_score = 3\n", r"has a int; it defines no function"),
        ("import no_such_module\n", r"path=.*reward.py: importing it raised ModuleNotFoundError.*reward.py:1"),
        ("x = (\n", r"importing it raised SyntaxError"),
        ("import sys\nsys.exit(3)\n", r"importing it raised SystemExit: 3"),
        (
            "def compute_score(text):\n    pass\n",
            r"defines compute_score\(text\), which cannot be called as compute_score\(.* missing a required",
        ),
        ("def compute_score(solution_str, ground_truth):\n    pass\n", r"cannot be called as .* unexpected keyword"),
    ],
)
def test_error_names_key_path_name_and_what_was_found(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(RewardFunctionError, match=r"custom_reward_function\.(path|name)=") as caught:
        load_function(written(tmp_path, text))
    assert caught.match(f"(?s){message}")


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(RewardFunctionError, match=r"custom_reward_function.path=.*gone.py: nothing there"):
        check_file(tmp_path / "gone.py")
    with pytest.raises(RewardFunctionError, match="a folder there; give a Python file"):
        check_file(tmp_path)


def test_a_file_that_is_no_python_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RewardFunctionError, match=r"not a Python file \(its name ends in '.txt'\)"):
        load_function(written(tmp_path, GOOD, name="reward.txt"))


def test_functions_may_take_any_keywords_and_be_methods(tmp_path: Path) -> None:
    text = "class R:\n    def score(self, **kw):\n        return len(kw)\ncompute_score = R().score\n"
    assert load_function(written(tmp_path, text))(data_source=1, solution_str=2, ground_truth=3, extra_info=4) == 4


def test_the_verifier_of_generated_tasks_is_a_file() -> None:
    assert check_file(VERIFIER) == VERIFIER


@pytest.mark.parametrize(
    ("returned", "score"),
    [
        (1.5, 1.5),
        (0, 0.0),
        (0.0, 0.0),
        (True, 1.0),
        (False, 0.0),
        (np.float32(0.5), 0.5),
        (np.bool_(True), 1.0),
        (np.array(2.0), 2.0),
        (Fraction(1, 4), 0.25),
        (Decimal("0.5"), 0.5),
        ({"score": 0.0, "acc": 1}, 0.0),
        ({"score": np.int64(3)}, 3.0),
    ],
)
def test_numbers_are_scores_zero_included(returned: Any, score: float) -> None:
    found, _ = read_score(returned)
    assert found == score
    assert type(found) is float


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned NoneType None, not a number"),
        ("1.0", "returned str '1.0', not a number"),
        (float("nan"), "returned nan"),
        (float("-inf"), "returned -inf"),
        (10**400, "returned int .*too large"),
        (1j, "returned complex"),
        ([1.0], r"returned list \[1.0\], not a number"),
        (np.zeros(2), "returned ndarray"),
        ({"reward": 1.0}, r"dict without 'score' \(keys: reward\)"),
        ({}, "keys: none"),
        ({"score": None}, "returned NoneType"),
        (1e300, r"returned 1e\+300, beyond the range of float32 \(largest 3.402823e\+38\)"),
        ({"score": -3.5e38}, r"returned -3.5e\+38, beyond the range of float32"),
        ({"score": 1, "acc": "right"}, "returned 'acc': str 'right', not a number"),
        ({"score": 1, "acc": "0.5"}, "returned 'acc': str '0.5', not a number"),
        ({"score": 1, "acc": "nan"}, "returned 'acc': str 'nan', not a number"),
        ({"score": 1, "acc": float("nan")}, "returned 'acc': nan"),
        ({"score": 1, "acc": None}, "returned 'acc': NoneType None, not a number"),
        ({"score": 1, "acc": [1.0]}, r"returned 'acc': list \[1.0\], not a number"),
        ({"score": 1, "acc": 1e39}, r"returned 'acc': 1e\+39, beyond the range of float32"),
        ({"score": float("nan")}, "returned nan"),
    ],
)
def test_anything_else_is_invalid_and_told(returned: Any, message: str) -> None:
    with pytest.raises(InvalidScore, match=message):
        read_score(returned)


@pytest.mark.parametrize("value", [float(np.finfo(np.float32).max), -float(np.finfo(np.float32).max), 1e-300])
def test_every_score_is_finite_as_float32(value: float) -> None:
    assert read_score(value)[0] == value
    with pytest.raises(InvalidScore, match="float32"):
        read_score(np.nextafter(np.finfo(np.float32).max, np.inf, dtype=np.float64))


@pytest.mark.parametrize("value", [1, True, np.float32(1), np.bool_(True), Fraction(1)])
def test_accuracy_is_a_float_whatever_number_it_came_as(value: Any) -> None:
    found = read_score({"score": 0.5, "acc": value})[1]["acc"]
    assert (type(found), found) == (float, 1.0)


def test_plain_entries_of_a_dict_are_kept_beside_the_score() -> None:
    returned = {"score": 1, "acc": 0.5, "kind": "x", "good": True, "big": object(), 3: 4}
    assert read_score(returned)[1] == {"acc": 0.5, "kind": "x", "good": True, "3": 4}


def test_description_is_one_short_line_with_the_place() -> None:
    try:
        raise KeyError("a\nb" * 500)
    except KeyError as error:
        line = describe(error)
    assert line.startswith("KeyError: ")
    assert "\n" not in line
    assert len(line) < 400
    assert "(test_function.py:" in line


def test_an_error_that_cannot_be_printed_is_still_described() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe(Silent()) == "Silent: (unprintable: RuntimeError)"
