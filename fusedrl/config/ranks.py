"""A set of ranks as a text: "0-3,8" is ranks 0, 1, 2, 3 and 8; null is all ranks of the job.

A layout's ranks lie on them in increasing order.
"""

import re
from collections.abc import Iterator, Sequence

from fusedrl.config.schema.parallel import LayersConfig
from fusedrl.config.schema.policy import EngineConfig

_PART = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")


def parse_ranks(text: str | None, *, world: int, key: str) -> tuple[int, ...]:
    """The ranks, increasing. Raises ValueError for what is no set of ranks of a job of `world`."""
    if text is None:
        return tuple(range(world))
    found: list[int] = []
    for part in text.split(","):
        if (match := _PART.fullmatch(part)) is None:
            raise ValueError(f"{key}={text}: {part.strip()!r} names no ranks; write numbers and ranges, such as 0-3,8")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{key}={text}: the range {part.strip()} ends before it begins; write {last}-{first}")
        if last >= world:  # before the range is spelt out, which may be long
            raise ValueError(f"{key}={text}: rank {last} is beyond the {world} ranks of this job, 0 to {world - 1}")
        found += range(first, last + 1)
    if twice := sorted({rank for rank in found if found.count(rank) > 1}):
        raise ValueError(f"{key}={text}: rank {twice[0]} is named twice; name each rank once")
    return tuple(sorted(found))


def text_of(layout: LayersConfig | EngineConfig) -> str | None:
    """What a layout says of its ranks; those of commands with one model say nothing and lie on all."""
    return getattr(layout, "ranks", None)


def ranks_of(layout: LayersConfig, *, world: int, key: str = "megatron") -> tuple[int, ...]:
    """Where a model's layout lies."""
    return parse_ranks(text_of(layout), world=world, key=f"{key}.ranks")


def count_ranks(text: str | None, *, world: int) -> int:
    """How many; all of the job's where the text is no set of ranks, which a check of its own says."""
    try:
        return len(parse_ranks(text, world=world, key="ranks"))
    except ValueError:
        return world


def check_text(text: str | None, *, world: int, key: str) -> Iterator[str]:
    """The problem of a set of ranks, if there is one."""
    try:
        parse_ranks(text, world=world, key=key)
    except ValueError as error:
        yield str(error)


def told(ranks: Sequence[int]) -> str:
    """As the text has it: 0-3,8."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
