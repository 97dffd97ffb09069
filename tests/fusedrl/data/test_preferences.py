import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fusedrl.data.files import RowError
from fusedrl.data.preferences import NEAR, Preference, contrasted, near_misses, read_preferences
from fusedrl.data.rows import Row

PAIR = {"prompt": "3+4=", "chosen": "7", "rejected": "8"}
ASKED = [{"role": "user", "content": "3 + 4?"}]


def says(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def write(folder: Path, *lines: Any, name: str = "pairs.jsonl") -> Path:
    path = folder / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_a_pair_of_texts_has_no_margin_unless_given(tmp_path: Path) -> None:
    path = write(tmp_path, PAIR, "", PAIR | {"margin": 2}, PAIR | {"margin": None})
    assert read_preferences([path]) == [
        Preference("3+4=", "7", "8", 0.0, f"{path}:1"),
        Preference("3+4=", "7", "8", 2.0, f"{path}:3"),
        Preference("3+4=", "7", "8", 0.0, f"{path}:4"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        {"prompt": ASKED, "chosen": "7", "rejected": "8"},
        {"prompt": ASKED, "chosen": [says("7")], "rejected": [says("8")]},
        {"chosen": [*ASKED, says("7")], "rejected": [*ASKED, says("8")]},
        {"prompt": ASKED, "chosen": [*ASKED, says("7")], "rejected": [*ASKED, says("8")]},
        {"prompt": "3 + 4?", "chosen": [*ASKED, says("7")], "rejected": [*ASKED, says("8")]},
    ],
)
def test_every_form_of_a_chat_gives_the_same_prompt_and_responses(tmp_path: Path, line: Any) -> None:
    (found,) = read_preferences([write(tmp_path, line)])
    assert (found.prompt, found.chosen, found.rejected) == (ASKED, "7", "8")


def test_an_empty_response_is_one(tmp_path: Path) -> None:
    (found,) = read_preferences([write(tmp_path, PAIR | {"rejected": ""})])
    assert found.rejected == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"prompt": "a", "chosen": "b"}, "rejected is missing; the row has prompt, chosen"),
        (PAIR | {"chosen": 7}, "chosen must be text, or a list of messages with role and content; found 7"),
        (PAIR | {"chosen": []}, "chosen must be text"),
        (PAIR | {"prompt": ""}, "prompt must be text"),
        (
            {"chosen": "7", "rejected": "8"},
            "prompt is missing; the row has chosen, rejected",
        ),
        ({"chosen": [says("7")], "rejected": [says("8")]}, "prompt is missing; the row has chosen, rejected"),
        (PAIR | {"chosen": [says("7")]}, "chosen and rejected must both be text, or both lists of messages"),
        (
            PAIR | {"chosen": ASKED, "rejected": [says("8")]},
            "chosen must end with a message of the assistant, not of 'u",
        ),
        (
            {"chosen": [*ASKED, says("7")], "rejected": [says("x"), says("8")]},
            "chosen and rejected differ before their last message",
        ),
        (
            {"prompt": "else", "chosen": [*ASKED, says("7")], "rejected": [*ASKED, says("8")]},
            "prompt is not what the messages of chosen begin with",
        ),
        (PAIR | {"margin": -1}, "margin must be a number of at least 0, not -1"),
        (PAIR | {"margin": True}, "margin must be a number of at least 0, not true"),
        (PAIR | {"margin": "wide"}, 'margin must be a number of at least 0, not "wide"'),
        ('{"prompt": "a", "chosen": "b", "rejected": "c", "margin": NaN}', "margin must be a number of at least 0"),
        ('{"prompt": "a", "chosen": "b", "rejected": "c", "margin": Infinity}', "margin must be a number"),
        ("[1]", "a row is an object"),
        ("{", "not JSON"),
    ],
)
def test_an_unusable_pair_is_named_by_file_and_line(tmp_path: Path, line: Any, reason: str) -> None:
    path = write(tmp_path, PAIR, line)
    with pytest.raises(RowError) as caught:
        read_preferences([path])
    assert str(caught.value).startswith(f"{path}:2: {reason}")
    assert str(caught.value).isprintable()


def test_parquet_pairs_equal_jsonl_pairs(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for number, rows in enumerate(
        (
            [PAIR | {"margin": 0.5}, PAIR | {"margin": None}],
            [{"chosen": [*ASKED, says("7")], "rejected": [*ASKED, says("8")]}],
        )
    ):
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / f"{number}.parquet")
        found = read_preferences([tmp_path / f"{number}.parquet"])
        expected = read_preferences([write(tmp_path, *rows)])
        assert [replace(each, place="") for each in found] == [replace(each, place="") for each in expected]


def task(*answers: str) -> list[Row]:
    return [Row(f"{index}=", ground_truth=answer, place=f"t[{index}]") for index, answer in enumerate(answers)]


def test_a_task_s_wrong_answer_is_the_next_one_that_differs() -> None:
    found = contrasted(task("7", "7", "8", "7", "7"))
    assert [(each.chosen, each.rejected) for each in found] == [
        ("7", "8"),
        ("7", "8"),
        ("8", "7"),
        ("7", "8"),
        ("7", "8"),
    ]
    assert [each.prompt for each in found] == ["0=", "1=", "2=", "3=", "4="]
    assert found[2].place == "t[2]"
    assert contrasted([]) == []


def test_a_task_with_one_answer_has_no_wrong_one() -> None:
    with pytest.raises(ValueError, match=r"data\.task\.config: all 2 answers are '7'"):
        contrasted(task("7", "7"))


def test_near_misses_are_wrong_by_little_and_follow_from_the_row_alone() -> None:
    rows = [Row("q", ground_truth=str(right), place=f"t[{index}]") for index, right in enumerate([-2, 0, 7] * 40)]
    found = near_misses(rows)
    off = [int(each.rejected) - int(each.chosen) for each in found]
    assert set(off) == {distance * sign for distance in range(1, NEAR + 1) for sign in (-1, 1)}
    assert [each.chosen for each in found] == [str(row.ground_truth) for row in rows]
    assert near_misses(rows[5:9]) == found[5:9]
    with pytest.raises(ValueError, match=r"data\.rejected=near: t\[3\]: its answer is 'seven'"):
        near_misses([Row("q", ground_truth="seven", place="t[3]")])
