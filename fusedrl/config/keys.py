"""A schema as a flat table: dotted key -> type, default, help, limits. Help, suggestions and checks read it."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass

from fusedrl.config.schema.fields import Limits


@dataclass(frozen=True)
class Key:
    """One key of a schema; `default` is None where the schema builds it (a list, a dict)."""

    name: str
    type_name: str
    help: str
    limits: Limits
    open: bool  # a dict that takes any keys below it


def type_name(hint: object) -> str:
    """How a type is written for users: "int", "float or null", "list of str"."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return " or ".join("null" if part is types.NoneType else type_name(part) for part in arguments)
    if origin is list:
        return f"list of {type_name(arguments[0])}"
    if origin is dict:
        return "dict"
    return getattr(hint, "__name__", str(hint))


def walk(schema: type, *, prefix: str = "") -> Iterator[Key]:
    """Every key with a value below `schema`, in the order of its definition."""
    hints = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        hint, name = hints[field.name], prefix + field.name
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from walk(hint, prefix=f"{name}.")
        else:
            is_open = typing.get_origin(hint) is dict
            yield Key(name, type_name(hint), field.metadata["help"], field.metadata["limits"], is_open)


def groups(schema: type, *, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key that holds other keys, with its help."""
    hints = typing.get_type_hints(schema)
    for field in dataclasses.fields(schema):
        hint, name = hints[field.name], prefix + field.name
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield name, field.metadata["help"]
            yield from groups(hint, prefix=f"{name}.")


def suggest(schema: type, wanted: str) -> str | None:
    """The valid key nearest to `wanted`, or None where nothing is near.

    Keys with the same last part come first, then those with one of three similar ones; among them the one that shares
    most parts, then the one spelled most alike (actor.lr -> actor_rollout_ref.actor.optim.lr).
    """
    names = [key.name for key in walk(schema)] + [name for name, _ in groups(schema)]
    last = {name: name.rpartition(".")[2] for name in names}
    wanted_last = wanted.rpartition(".")[2]
    near = difflib.get_close_matches(wanted_last, set(last.values()), n=3, cutoff=0.7)
    candidates = [name for name in names if last[name] == wanted_last] or [name for name in names if last[name] in near]
    return max(candidates, key=lambda name: _likeness(name, wanted)) if candidates else None


def _likeness(name: str, wanted: str) -> tuple[int, float]:
    shared = set(name.split(".")) & set(wanted.split("."))
    return len(shared), difflib.SequenceMatcher(a=name, b=wanted).ratio()
