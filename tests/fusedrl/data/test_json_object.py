"""Whatever a JSON file holds, reading it gives values of the right type or one line that names file and key."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusedrl.data.json_object import JsonObject

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda inner: st.lists(inner) | st.just({})
)
READERS: dict[str, Any] = {
    "size": lambda value: type(value) is int and value >= 1,
    "number": lambda value: type(value) in (int, float) and 0 < value < float("inf"),
    "text": lambda value: isinstance(value, str),
}


@pytest.mark.parametrize("reader", READERS)
@given(value=VALUES)
def test_a_value_is_taken_exactly_where_it_is_of_its_kind(reader: str, value: Any) -> None:
    read = getattr(JsonObject({"key": value}, "file"), reader)
    if READERS[reader](value):
        assert read("key") == value
    else:
        with pytest.raises(ValueError, match=r"\Afile: key( is missing|=.* must be )"):
            read("key")


@pytest.mark.parametrize("values", [{}, {"key": None}])
def test_null_is_not_given(values: dict[str, Any]) -> None:
    found = JsonObject(values, "file")
    assert (found.size("key", default=3), found.number("key", default=0.5), found.flag("key", default=True)) == (
        3,
        0.5,
        True,
    )
    assert (found.token_ids("key"), found.token_id("key"), found.inner("key").values) == ((), None, {})


def test_an_integer_that_no_float_holds_is_no_number() -> None:
    with pytest.raises(ValueError, match=r"file: key=1000.*\.\.\. must be a number above 0"):
        JsonObject({"key": 10**400}, "file").number("key")


@pytest.mark.parametrize("value", ["2", True, 2.0, [1, "2"], {}])
def test_token_ids_are_whole_numbers(value: Any) -> None:
    with pytest.raises(ValueError, match=r"file: key=.* must be a token id"):
        JsonObject({"key": value}, "file").token_ids("key")


def test_one_token_id_is_not_several() -> None:
    with pytest.raises(ValueError, match=r"file: key=\[1, 2\] must be one token id"):
        JsonObject({"key": [1, 2]}, "file").token_id("key")


def test_an_inner_object_is_named_by_its_key() -> None:
    outer = JsonObject({"a": {"b": "x"}, "list": [1]}, "file")
    with pytest.raises(ValueError, match="file: a: b='x' must be a whole number"):
        outer.inner("a").size("b")
    with pytest.raises(ValueError, match=r"file: list: must hold an object \{\.\.\.\}, not \[1\]"):
        outer.inner("list")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"hidden_size: 3", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"key": ' + b"1" * 5000 + b"}", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "must hold an object"),
        (b"null", "must hold an object"),
    ],
)
def test_a_file_that_holds_no_object_is_named_in_one_line(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as caught:
        JsonObject.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_folder_in_the_file_s_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        JsonObject.read(tmp_path)
