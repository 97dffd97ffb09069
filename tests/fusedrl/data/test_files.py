import json
from pathlib import Path

import pytest

from fusedrl.data.files import RowError, read_rows


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def test_rows_have_verl_s_columns(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "2+2?"}]
    path = write(
        tmp_path / "a.jsonl",
        {"prompt": "1+1=", "data_source": "sums", "reward_model": {"ground_truth": "2"}, "extra_info": {"k": 1}},
        "",
        {"prompt": chat, "answer": "4"},
    )
    first, second = read_rows([path])
    assert (first.prompt, first.data_source, first.ground_truth, first.extra_info) == ("1+1=", "sums", "2", {"k": 1})
    assert (second.prompt, second.ground_truth, second.place) == (chat, "4", f"{path}:3")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{not json", "not JSON"),
        ("[1]", "a row is an object"),
        ({"question": "1+1"}, "prompt must be text"),
        ({"prompt": ""}, "prompt must be text"),
        ({"prompt": [{"role": "user"}]}, "prompt must be text"),
        ({"prompt": "a", "data_source": 3}, "data_source must be str"),
        ({"prompt": "a", "reward_model": {"truth": 1}}, "no ground_truth; it has truth"),
        ({"prompt": "a", "extra_info": []}, "extra_info must be dict"),
    ],
)
def test_each_bad_row_names_file_and_line(tmp_path: Path, line: object, named: str) -> None:
    path = write(tmp_path / "bad.jsonl", {"prompt": "fine"}, line)
    with pytest.raises(RowError, match=named) as error:
        read_rows([path])
    assert str(error.value).startswith(f"{path}:2: ")


def test_missing_and_empty_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RowError, match=r"none\.jsonl: cannot be read"):
        read_rows([tmp_path / "none.jsonl"])
    with pytest.raises(RowError, match="holds no row"):
        read_rows([write(tmp_path / "empty.jsonl", "")])


def test_a_score_of_zero_is_a_ground_truth(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"prompt": "0=", "reward_model": {"ground_truth": 0}})
    assert read_rows([path])[0].ground_truth == 0
