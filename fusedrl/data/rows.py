"""A row: one prompt and what its answer is judged by, under verl's column names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Chat = Sequence[Mapping[str, str]]
"""Messages with "role" and "content"."""


class RowError(ValueError):
    """A row that cannot be used; the message names file, line and column."""


@dataclass(frozen=True)
class Row:
    """`place` tells where it came from ("train.jsonl:17"), for errors."""

    prompt: str | Chat
    data_source: str = ""
    ground_truth: Any = None
    extra_info: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
