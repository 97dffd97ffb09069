"""Rows with verl's columns from jsonl or parquet files, or from Hugging Face datasets on disk (arrow_folder.py). Every
error names the file and the line (or row).

    {"prompt": "3 + 4 =", "data_source": "sums", "reward_model": {"ground_truth": "7"}, "extra_info": {}}
    {"prompt": [{"role": "user", "content": "What is 3 + 4?"}], ...}

`answer` is read as the ground truth where `reward_model` is absent, so that SFT files need no more than two columns.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fusedrl.data.arrow_folder import arrow_records
from fusedrl.data.rows import Row, RowError

MAX_DEPTH = 100
SURROGATE = re.compile("[\ud800-\udfff]")


def read_rows(paths: Sequence[str | Path]) -> list[Row]:
    """All rows of all files, in order. Blank lines are passed over; a file without a row is an error."""
    return [_row(data, place=place) for place, data in read_records(paths)]


def read_records(paths: Sequence[str | Path]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(place, columns) of each row of all files, whatever the columns are."""
    for path in map(Path, paths):
        place = None
        for place, data in _records(path):
            if not isinstance(data, dict):
                raise RowError(f"{place}: a row is an object with 'prompt', not {type(data).__name__}")
            yield place, data
        if place is None:
            raise RowError(f"{path}: the file holds no row")


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    if path.is_dir():
        return arrow_records(path)
    return _parquet_records(path) if path.suffix == ".parquet" else _json_records(path)


def _json_records(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, parsed line) of each line that is not blank."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte-order mark
    except (OSError, UnicodeDecodeError) as error:
        raise RowError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            place = f"{path}:{number}"
            try:
                data = json.loads(line)
            except (ValueError, RecursionError) as error:  # ValueError: not JSON, or a number of too many digits
                raise RowError(f"{place}: not JSON: {error}") from error
            if flaw := _flaw(data):
                raise RowError(f"{place}: {flaw}")
            yield place, data


def _flaw(value: Any, *, depth: int = 0) -> str | None:
    """What JSON allows and no later step can take: depth without end, halves of characters."""
    if depth > MAX_DEPTH:
        return f"lists and objects are nested deeper than {MAX_DEPTH}"
    if isinstance(value, str):
        half = SURROGATE.search(value)
        return f"text holds \\u{ord(half[0]):04x}, one half of a character" if half else None
    inner: Iterable[Any] = (*value, *value.values()) if isinstance(value, dict) else value
    found = (_flaw(each, depth=depth + 1) for each in inner) if isinstance(value, dict | list) else ()
    return next(filter(None, found), None)


def _parquet_records(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, columns) of each row, counted from 1. pyarrow is optional: only parquet needs it."""
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise RowError(
            f"{path}: parquet needs pyarrow (pip install fusedrl[parquet]), or write the rows as jsonl"
        ) from error
    try:
        records = parquet.read_table(str(path)).to_pylist()
    except Exception as error:  # pyarrow's, those of files, whatever a column's values raise as Python objects
        raise RowError(f"{path}: cannot be read: {error}") from error
    for number, record in enumerate(records, start=1):
        yield f"{path}:{number}", record


def _row(data: Mapping[str, Any], *, place: str) -> Row:
    return Row(
        prompt=prompt_of(data, place=place),
        data_source=_typed(data, "data_source", str, default="", place=place),
        ground_truth=_ground_truth(data, place=place),
        extra_info=_typed(data, "extra_info", dict, default={}, place=place) or {},
        place=place,
    )


def prompt_of(data: Mapping[str, Any], *, place: str) -> str | list[dict[str, str]]:
    """A row's prompt. Raises RowError."""
    need_column(data, "prompt", place=place)
    prompt = data["prompt"]
    if prompt and (isinstance(prompt, str) or is_chat(prompt)):
        return prompt
    raise RowError(
        f"{place}: prompt must be text, or a list of messages with role and content; found {shown(data, 'prompt')}"
    )


def need_column(data: Mapping[str, Any], key: str, *, place: str) -> None:
    """Raises RowError with the columns that are there."""
    if key not in data:
        raise RowError(f"{place}: {key} is missing; the row has {', '.join(data) or 'no column'}")


def shown(data: Mapping[str, Any], key: str) -> str:
    """A column's value in a message."""
    return json.dumps(data[key], ensure_ascii=False, default=str)[:80]


def is_chat(value: Any) -> bool:
    """Messages, at least one."""
    return isinstance(value, list) and bool(value) and all(_is_message(message) for message in value)


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))


def _ground_truth(data: Mapping[str, Any], *, place: str) -> Any:
    if "reward_model" not in data:
        return data.get("answer")
    reward_model = _typed(data, "reward_model", dict, default={}, place=place)
    if "ground_truth" not in reward_model:
        raise RowError(f"{place}: reward_model has no ground_truth; it has {', '.join(reward_model) or 'no key'}")
    return reward_model["ground_truth"]


def _typed(data: Mapping[str, Any], key: str, kind: type, *, default: Any, place: str) -> Any:
    value = data.get(key, default)
    if value is not None and not isinstance(value, kind):
        raise RowError(f"{place}: {key} must be {kind.__name__}, not {type(value).__name__}")
    return default if value is None else value
