"""A JSON file that must hold an object, and its keys by type. Every error is one line: file, key, what was found.

config = JsonObject.read(folder / "config.json")
config.size("hidden_size")                               required, a whole number of at least 1
config.number("rope_theta", default=10000.0)             null counts as not given
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class JsonObject:
    """`where` names the object in messages: its file, and the key it stands under."""

    values: Mapping[str, Any]
    where: str

    @classmethod
    def read(cls, path: Path) -> "JsonObject":
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or a number of too many digits
            raise ValueError(f"{path}: not JSON: {error}") from error
        return cls.of(values, where=str(path))

    @classmethod
    def of(cls, values: object, *, where: str) -> "JsonObject":
        if not isinstance(values, Mapping):
            raise ValueError(f"{where}: must hold an object {{...}}, not {_shown(values)}")
        return cls(values, where)

    def size(self, key: str, *, default: int | None = None) -> int:
        """A whole number of at least 1."""
        value = self._given(key, default)
        if not _is_whole(value) or value < 1:
            raise self._wrong(key, "a whole number of at least 1")
        return int(value)

    def number(self, key: str, *, default: float | None = None) -> float:
        """A finite number above 0."""
        value = self._given(key, default)
        if not _is_finite(value) or value <= 0:
            raise self._wrong(key, "a number above 0")
        return float(value)

    def text(self, key: str, *, default: str | None = None) -> str:
        value = self._given(key, default)
        if not isinstance(value, str):
            raise self._wrong(key, "text")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._given(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def token_ids(self, key: str) -> tuple[int, ...]:
        """One id, a list of them, or none."""
        value = self.values.get(key)
        ids = value if isinstance(value, list) else [] if value is None else [value]
        if not all(map(_is_whole, ids)):  # -1 is written for "none" by some
            raise self._wrong(key, "a token id or a list of them")
        return tuple(ids)

    def token_id(self, key: str) -> int | None:
        """One id or none."""
        ids = self.token_ids(key)
        if len(ids) > 1:
            raise self._wrong(key, "one token id")
        return next(iter(ids), None)

    def inner(self, key: str) -> "JsonObject":
        """The object under a key; an empty one where it is not given."""
        value = self.values.get(key)
        return JsonObject.of({} if value is None else value, where=f"{self.where}: {key}")

    def _given(self, key: str, default: Any) -> Any:
        value = self.values.get(key)
        if value is None and default is None:
            raise ValueError(f"{self.where}: {key} is missing")
        return default if value is None else value

    def _wrong(self, key: str, wanted: str) -> ValueError:
        return ValueError(f"{self.where}: {key}={_shown(self.values[key])} must be {wanted}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer that no float holds
        return False


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
