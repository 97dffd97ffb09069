"""Generation in parts, on gloo ranks."""

from collections.abc import Sequence
from typing import Any

from fusedrl.rollout.partial import generate_until
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.spread import generate_spread
from tests.distributed.rollout_jobs import engine_of


def in_parts(
    folder: str, requests: Sequence[Request], *, enough: Sequence[int], **engine: Any
) -> tuple[list[list[Completion]], list[list[Request]], list[Completion]]:
    """What each part finished and left, one after the other, until so many samples were finished in it; the same
    requests without a break."""
    made = engine_of(folder, **engine)
    group = made.model.pg_collection.dp
    done, left = [], []
    rest = list(requests)
    for count in enough:
        finished, rest = generate_until(made, rest, enough=lambda ids, n=count: len(ids) >= n, dp_group=group)
        made.release_cache()
        done.append(finished)
        left.append(rest)
    return done, left, generate_spread(made, requests, dp_group=group)
