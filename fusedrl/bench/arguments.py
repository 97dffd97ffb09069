"""`key=value` arguments of a benchmark, read into a dataclass of defaults; errors are one line that names the key.

problem=configs/schedule/exp4.yaml methods=[serial,auto] unit_ms=2 scale=true
"""

import difflib
import types
import typing
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

Options = TypeVar("Options")
_BOOLS = {"true": True, "false": False}


class ArgumentError(ValueError):
    """An argument that cannot be read; the message is one line."""


def read(schema: type[Options], arguments: Sequence[str]) -> Options:
    """The dataclass with the arguments' values. Raises ArgumentError for an unknown key, a value of another type, a
    key that is given twice or, where it has no default, not at all."""
    types_of = typing.get_type_hints(schema)
    values: dict[str, Any] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals:
            raise ArgumentError(f"{argument}: write key=value; the keys are {', '.join(types_of)}")
        if name not in types_of:
            raise ArgumentError(f"{name}: no such key; {_near(name, tuple(types_of))}")
        if name in values:
            raise ArgumentError(f"{name}: given twice")
        values[name] = _value(text, types_of[name], key=name)
    for each in fields(schema):  # type: ignore[arg-type]
        if each.name not in values and each.default is MISSING and each.default_factory is MISSING:
            raise ArgumentError(f"{each.name}: a value is needed: give {each.name}=VALUE")
    return schema(**values)


def one_of(value: str, known: Sequence[str], *, key: str) -> str:
    """The value, or an ArgumentError with the known ones and the nearest of them."""
    if value not in known:
        raise ArgumentError(f"{key}: {value!r} is unknown; {_near(value, known)}")
    return value


def _near(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"


def _value(text: str, kind: Any, *, key: str) -> Any:
    if isinstance(kind, types.UnionType):  # X | None
        if text in ("null", ""):
            return None
        kind = next(each for each in typing.get_args(kind) if each is not types.NoneType)
    if typing.get_origin(kind) is tuple:
        items = [item.strip() for item in text.strip("[]").split(",")]
        return tuple(_value(item, typing.get_args(kind)[0], key=key) for item in items if item)
    if kind is bool:
        return _BOOLS[one_of(text.lower(), tuple(_BOOLS), key=key)]
    try:
        return Path(text) if kind is Path else kind(text)
    except ValueError:
        wanted = {int: "a whole number", float: "a number"}[kind]
        raise ArgumentError(f"{key}: {text!r} is not {wanted}") from None
