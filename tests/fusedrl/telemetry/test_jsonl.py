"""Every line of metrics.jsonl is valid JSON, whatever the values and whenever the run was cut short."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.telemetry.jsonl import NONFINITE, JsonlWriter, encode_line, read_lines


def strict(line: str) -> dict[str, object]:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    return json.loads(line, parse_constant=refuse)


@given(st.dictionaries(st.text(min_size=1).filter(lambda n: n not in ("step", NONFINITE)), st.floats()))
def test_any_values_make_one_line_of_strict_json_and_come_back(metrics: dict[str, float]) -> None:
    line = encode_line(3, metrics)
    assert line.count("\n") == 1
    assert line.endswith("\n")
    found = strict(line)
    lost = {name for name, value in metrics.items() if not math.isfinite(value)}
    assert found.pop(NONFINITE) == len(lost)
    assert found.pop("step") == 3
    assert found == {name: None if name in lost else value for name, value in metrics.items()}


def test_tensors_and_numpy_numbers_are_taken() -> None:
    found = strict(encode_line(1, {"a": torch.tensor(1.5), "b": np.float32(0.5), "c": np.int64(3), "d": True}))
    assert (found["a"], found["b"], found["c"], found["d"]) == (1.5, 0.5, 3, True)


def test_other_values_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="metric a is str, not a number"):
        encode_line(1, {"a": "text"})


def test_lines_are_there_at_once_and_appended(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    for part in (range(1, 3), range(3, 5)):
        writer = JsonlWriter(path)
        for step in part:
            writer.log(step, {"x": step / 2})
            assert [line["step"] for line in read_lines(path)] == list(range(1, step + 1))
        writer.close()


@given(cut=st.integers(1, 30))
def test_a_line_that_was_cut_short_is_removed_on_opening(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("cut") / "m.jsonl"
    first, second = encode_line(1, {"x": 1}), encode_line(2, {"x": 2})
    path.write_text(first + second[:-cut])
    writer = JsonlWriter(path)
    writer.log(2, {"x": 3})
    writer.close()
    assert [(line["step"], line["x"]) for line in read_lines(path)] == [(1, 1), (2, 3)]


def test_resuming_drops_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_text("".join(encode_line(step, {"x": 0.1 * step}) for step in range(6)))
    JsonlWriter(path, keep_through=3).close()
    assert path.read_text() == "".join(encode_line(step, {"x": 0.1 * step}) for step in range(4))


def test_a_write_that_is_cut_short_leaves_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.jsonl"
    writer = JsonlWriter(path)
    writer.log(1, {"x": 1})
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, data[:5]))
    with pytest.raises(OSError, match=r"only 5 of .* bytes of step 2"):
        writer.log(2, {"x": 1})
    monkeypatch.undo()
    writer.log(3, {"x": 1})
    writer.close()
    assert [line["step"] for line in read_lines(path)] == [1, 3]
