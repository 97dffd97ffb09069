"""One order for all ranks of a team: its first makes it, the others are told, and all check that they plan alike.

    first    make() --text--> all ranks        every rank: digest of (its own problem, the text it got), compared

A rank that built another problem would run other messages, and the job would hang: it ends with one line instead.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

from fusedrl.parallel.comm import all_gather_object, broadcast_object
from fusedrl.parallel.team import current, leads
from schedules.order import Order
from schedules.problem import Problem


@dataclass(frozen=True)
class Made:
    """An order and figures about it. final: asked again, rank 0 would make no other."""

    order: Order
    figures: dict[str, float] = field(default_factory=dict)
    final: bool = True


def agree_order(problem: Problem, make: Callable[[], Made]) -> Made:
    """What `make` gives on rank 0, on every rank. A collective of all ranks.

    Raises ValueError on all ranks where it does on rank 0, or where the ranks' problems differ.
    """
    told = broadcast_object(_made_text(problem, make) if leads() else None)
    mine = hashlib.sha256(f"{problem.digest} {told}".encode()).hexdigest()[:16]
    digests = all_gather_object(mine)
    if "error" in told:
        raise ValueError(told["error"])
    if others := [at for at, digest in enumerate(digests) if digest != digests[0]]:
        ranks = current().ranks
        raise ValueError(
            f"ranks {[ranks[at] for at in others]} plan other work than rank {ranks[0]} "
            f"(digest {digests[others[0]]}, not {digests[0]}): "
            "start all ranks with one configuration and one version"
        )
    return Made(Order.from_text(told["order"], problem), told["figures"], told["final"])


def _made_text(problem: Problem, make: Callable[[], Made]) -> dict[str, object]:
    """In msgpack's types."""
    try:
        made = make()
    except ValueError as error:
        return {"error": str(error)}
    return {"order": made.order.to_text(problem), "figures": made.figures, "final": made.final}
