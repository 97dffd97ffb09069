"""Holds every value within the limits that its schema declares."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from fusedrl.config.schema.fields import Limits


def check_values(config: Any) -> list[str]:
    """One line for each value outside its limits, naming the full key, the value and the limit."""
    return list(_walk(config, prefix=""))


def _walk(config: Any, *, prefix: str) -> Iterator[str]:
    for field in dataclasses.fields(config):
        value, name = getattr(config, field.name), prefix + field.name
        if dataclasses.is_dataclass(value):
            yield from _walk(value, prefix=f"{name}.")
        else:
            yield from _check(value, name=name, limits=field.metadata["limits"])


def _check(value: Any, *, name: str, limits: Limits) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        if item is not None and (reason := limits.broken_by(item)):
            yield f"{name}={item}: {reason}"
