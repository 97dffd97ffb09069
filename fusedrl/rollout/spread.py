"""One batch of requests over the generation replicas: who generates what, and everybody's samples for everybody.

The replicas are the data-parallel ranks of the generation layout. Every rank knows the whole batch and computes the
same assignment, so nothing is sent out; completions come back as msgpack bytes.

    requests -> assign (whole prompts together where counts allow) -> each replica generates its share -> all-gather
"""

from collections.abc import Sequence
from typing import Any, Protocol

from fusedrl.parallel.comm import all_gather_object
from fusedrl.rollout.requests import Completion, Request


class Engine(Protocol):
    """What `generate_spread` needs of an engine."""

    def generate(self, requests: Sequence[Request]) -> list[Completion]: ...


def assign(requests: Sequence[Request], *, replicas: int) -> list[list[Request]]:
    """The requests of each replica: counts differ by one at most, samples of a prompt stay together where they can.

    Prompts are dealt longest first to the replica with the least work; then the counts are evened by moving the cuts
    between neighbours, which splits a prompt between two of them at most.
    """
    shares: list[list[Request]] = [[] for _ in range(replicas)]
    for group in sorted(_by_prompt(requests), key=lambda g: (-_work(g), g[0].sample_id)):
        min(shares, key=_work).extend(group)
    dealt = [request for share in shares for request in share]
    base, longer = divmod(len(dealt), replicas)
    ends = [base * (i + 1) + min(i + 1, longer) for i in range(replicas)]
    return [dealt[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def generate_spread(engine: Engine, requests: Sequence[Request], *, dp_group: Any) -> list[Completion]:
    """All completions in sample-id order, on every rank; a collective of `dp_group`, one engine (shard) on each rank.

    All ranks pass the same requests. Tensor-parallel ranks of a replica hold the same share, each gathers along its own
    data-parallel group.
    """
    mine = assign(requests, replicas=dp_group.size())[dp_group.rank()]
    gathered = all_gather_object([c.to_wire() for c in engine.generate(mine)], group=dp_group)
    prompts = {request.sample_id: request.prompt for request in requests}
    completions = [Completion.from_wire(w, prompt=prompts[w["id"]]) for share in gathered for w in share]
    if len(completions) != len(requests):
        raise RuntimeError(f"{len(requests)} samples were asked for, {len(completions)} came back")
    return sorted(completions, key=lambda c: c.sample_id)


def _by_prompt(requests: Sequence[Request]) -> list[list[Request]]:
    groups: dict[tuple[int, ...], list[Request]] = {}
    for request in requests:
        groups.setdefault(request.prompt, []).append(request)
    return list(groups.values())


def _work(requests: Sequence[Request]) -> int:
    """Tokens to run at most: each distinct prompt once, each response in full."""
    prompts = {request.prompt for request in requests}
    return sum(map(len, prompts)) + sum(request.params.max_tokens for request in requests)
