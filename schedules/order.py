"""An order: for each rank, the sequence of its ops. Start times are no part of it; replay.py computes them.

As text, one row a rank:

    actor:F0 critic:F0 actor:F1 critic:B0 ...     # kinds: F, B (whole backward, or its input part where W follows), W
    actor:F0@7 ...                                # the stage is named where the rank holds several stages of the model

A W op in an order splits that backward: its B is then the input part alone. Where the order has no W, B is whole.
An op of a stage that occupies several ranks stands in each of their rows.
"""

import re
from dataclasses import dataclass

from schedules.forms import shown
from schedules.problem import Kind, Problem

_TOKEN = re.compile(r"(?P<model>[^:@\s]+):(?P<kind>[FBW])(?P<microbatch>\d{1,9})(?:@(?P<stage>\d{1,9}))?")


class OrderError(ValueError):
    """An order that cannot be run; the message is one line and names the place."""


@dataclass(frozen=True, order=True)
class Op:
    """One piece of work: a kind, of one micro-batch, at one stage of a model."""

    model: str
    kind: Kind
    microbatch: int
    stage: int

    def __str__(self) -> str:
        return f"{self.model}:{self.kind}{self.microbatch}@{self.stage}"


@dataclass(frozen=True)
class Order:
    """The rows of an order, one per rank."""

    rows: tuple[tuple[Op, ...], ...]

    def to_text(self, problem: Problem) -> str:
        """One line a rank, ops parted by blanks."""
        return "".join(" ".join(tokens) + "\n" for tokens in tokens_of(problem, self))

    @classmethod
    def from_text(cls, text: str, problem: Problem) -> "Order":
        """Read text: one line a rank (an idle rank has an empty one); '#' starts a comment, alone on a line no row."""
        lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        return order_of(problem, [line.split("#")[0].split() for line in lines])


def tokens_of(problem: Problem, order: Order) -> list[list[str]]:
    """The rows as text tokens; a stage is named only where the rank holds several of the model."""
    several = {(m.name, r) for m in problem.models for r in range(problem.ranks) if len(m.stages_on(r)) > 1}
    return [
        [str(op) if (op.model, rank) in several else str(op).rpartition("@")[0] for op in row]
        for rank, row in enumerate(order.rows)
    ]


def order_of(problem: Problem, rows: list[list[str]]) -> Order:
    """An order from text tokens. Raises OrderError naming the rank, the position and the token."""
    if len(rows) != problem.ranks:
        raise OrderError(f"{len(rows)} rows for {problem.ranks} ranks; an order has one row a rank")
    stages = {(m.name, r): m.stages_on(r) for m in problem.models for r in range(problem.ranks)}
    return Order(
        tuple(
            tuple(_parse(token, stages, rank=rank, position=position) for position, token in enumerate(row))
            for rank, row in enumerate(rows)
        )
    )


def _parse(token: str, stages: dict[tuple[str, int], tuple[int, ...]], *, rank: int, position: int) -> Op:
    place = f"rank {rank}, position {position}, {shown(token)}"
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise OrderError(f"{place}: not an op; expected MODEL:KIND then the micro-batch, as actor:F0 or actor:F0@7")
    model = match["model"]
    held = stages.get((model, rank))
    if held is None:
        raise OrderError(f"{place}: the problem has no model {shown(model)}")
    if not held:
        raise OrderError(f"{place}: {model} has no stage on rank {rank}")
    if match["stage"] is None and len(held) > 1:
        raise OrderError(f"{place}: rank {rank} holds the stages {list(held)} of {model}; name one: {token}@{held[0]}")
    stage = held[0] if match["stage"] is None else int(match["stage"])
    if stage not in held:
        raise OrderError(f"{place}: stage {stage} of {model} is not on rank {rank}")
    return Op(model, match["kind"], int(match["microbatch"]), stage)  # type: ignore[arg-type]
