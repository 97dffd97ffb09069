"""Generation over the replicas as one flow: samples come out as they finish, and a replica that runs low gets more.

    prompts in order -> the replica with fewest unfinished samples -> STEPS steps of each -> what finished, everywhere

Replicas meet after the same number of steps and tell what they finished and how many are left, so every rank deals the
next prompts alike and nothing else is sent. Who generates a sample changes none of its tokens (rollout/randomness.py).
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fusedrl.parallel.comm import all_gather_object
from fusedrl.rollout.engine import Steps
from fusedrl.rollout.requests import Completion, Request

STEPS = 16  # between two meetings; a step is a token of every row


def flow(
    engine: Steps, prompts: Iterable[Sequence[Request]], *, in_flight: int, dp_group: Any
) -> Iterator[list[Completion]]:
    """Samples of all replicas that finished since the last meeting, in sample-id order, the same on every rank.

    prompts: the requests of each, which stay together. in_flight: unfinished samples below which a replica gets another
    prompt. A collective of `dp_group`, one engine (shard) on each rank; the engine is idle before and after.
    """
    if engine.unfinished:
        raise RuntimeError(f"flow() on an engine with {engine.unfinished} unfinished samples")
    waiting, prompt_of = deque(prompts), dict[int, tuple[int, ...]]()
    unfinished = [0] * dp_group.size()
    while waiting or any(unfinished):
        for replica, requests in deal(waiting, unfinished, in_flight=in_flight):
            prompt_of |= {request.sample_id: request.prompt for request in requests}
            if replica == dp_group.rank():
                engine.add(requests)
        done = [each.to_wire() for _ in range(STEPS) if engine.unfinished for each in engine.step()]
        told = all_gather_object([engine.unfinished, done], group=dp_group)
        unfinished = [left for left, _ in told]
        wires = sorted((wire for _, share in told for wire in share), key=lambda wire: int(wire["id"]))
        yield [Completion.from_wire(wire, prompt=prompt_of.pop(wire["id"])) for wire in wires]


def deal(
    waiting: "deque[Sequence[Request]]", unfinished: Sequence[int], *, in_flight: int
) -> Iterator[tuple[int, Sequence[Request]]]:
    """(replica, requests of a prompt) until all replicas have enough or nothing waits; takes them off `waiting`."""
    loads = list(unfinished)
    while waiting and min(loads) < in_flight:
        replica = loads.index(min(loads))
        requests = waiting.popleft()
        loads[replica] += len(requests)
        yield replica, requests
