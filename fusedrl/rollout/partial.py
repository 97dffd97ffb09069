"""Generation that ends when enough samples are finished; the others come back as requests, to go on later.

    requests -> assign -> CHECK_STEPS steps of each replica -> which are finished anywhere? -> again, or stop

Replicas step alike and ask each other after the same number of steps. So where generation ends follows from the tokens
alone, never from the pace of a rank: the same run ends it at the same place every time.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from fusedrl.parallel.comm import all_gather_object
from fusedrl.rollout.engine import Steps
from fusedrl.rollout.requests import Completion, Request
from fusedrl.rollout.spread import assign

CHECK_STEPS = 8  # between two questions; a step is a token of every row


class Engine(Steps, Protocol):
    """What `generate_until` needs of an engine."""

    def extract(self, sample_ids: Collection[int]) -> list[Request]: ...


def generate_until(
    engine: Engine, requests: Sequence[Request], *, enough: Callable[[Collection[int]], bool], dp_group: Any
) -> tuple[list[Completion], list[Request]]:
    """(completions, requests that carry what the others have generated so far), in sample-id order, on every rank.

    enough: whether the finished samples of these ids are. Older samples (smaller ids) get rows first. A collective of
    `dp_group`, as generate_spread is (spread.py); the engine is idle before and after.
    """
    if engine.unfinished:
        raise RuntimeError(f"generate_until() on an engine with {engine.unfinished} unfinished samples")
    mine = sorted(assign(requests, replicas=dp_group.size())[dp_group.rank()], key=lambda r: r.sample_id)
    engine.add(mine)
    completions: list[Completion] = []
    finished: set[int] = set()
    while len(finished) < len(requests) and not enough(finished):
        done = [each for _ in range(CHECK_STEPS) if engine.unfinished for each in engine.step()]
        completions += done
        finished.update(*all_gather_object([each.sample_id for each in done], group=dp_group))
    rest = engine.extract([each.sample_id for each in mine if each.sample_id not in finished])
    completions += engine.step()  # on a pipeline: what ended in the turns that were under way
    assert not engine.unfinished
    return _everywhere(completions, rest, requests, dp_group=dp_group)


def _everywhere(
    completions: Sequence[Completion], rest: Sequence[Request], requests: Sequence[Request], *, dp_group: Any
) -> tuple[list[Completion], list[Request]]:
    told = [[each.to_wire() for each in completions], [_to_wire(each) for each in rest]]
    shares = all_gather_object(told, group=dp_group)
    by_id = {request.sample_id: request for request in requests}
    found = [Completion.from_wire(each, prompt=by_id[each["id"]].prompt) for done, _ in shares for each in done]
    left = [_from_wire(each, origin=by_id[each["id"]]) for _, unfinished in shares for each in unfinished]
    if len(found) + len(left) != len(requests):
        raise RuntimeError(f"{len(requests)} samples were under way, {len(found)} + {len(left)} came back")
    return sorted(found, key=lambda c: c.sample_id), sorted(left, key=lambda r: r.sample_id)


def _to_wire(request: Request) -> dict[str, Any]:
    """As Completion.to_wire."""
    tokens, logprobs = np.asarray(request.response, dtype="<i4"), np.asarray(request.logprobs, dtype="<f4")
    return {"id": request.sample_id, "tokens": tokens.tobytes(), "logprobs": logprobs.tobytes()}


def _from_wire(wire: Mapping[str, Any], *, origin: Request) -> Request:
    tokens, logprobs = np.frombuffer(wire["tokens"], dtype="<i4"), np.frombuffer(wire["logprobs"], dtype="<f4")
    return replace(origin, response=tuple(tokens.tolist()), logprobs=tuple(logprobs.tolist()))
