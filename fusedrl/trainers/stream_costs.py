"""What the work of a stream costs in this run, from what its engines and models took, for the tail policy.

    times of all instances -> StreamCosts -> simulator -> (r_t, m) of the next step

Every rank makes the same costs from the same gathered times; rank 0 alone simulates. Older times fade, by half a step.
The link between instances is measured once, by messages of two sizes from each rank to its counterpart.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.distributed as dist

from fusedrl.parallel.comm import all_gather_object
from fusedrl.rollout.step_times import StepTimes, Sums
from fusedrl.stream.costs import DecodeCurve, Link, StreamCosts
from fusedrl.stream.instance import Place

FADE = 0.5
GUESS = StreamCosts(decode=DecodeCurve(((1, 1.0), (2, 1.0))), prefill_ms=0.1)  # until something is measured
_SMALL, _LARGE, _REPEATS = 1 << 10, 1 << 20, 3  # bytes; repeats, of which the fastest counts


def costs_of(
    times: StepTimes, *, max_rows: int, link: Link | None, tasks: Sequence[str], score_workers: int = 1
) -> StreamCosts:
    """As measured; GUESS's numbers where nothing is. score_workers: of the reward function."""
    decode = [sums for (kind, _), sums in sorted(times.sums.items(), key=str) if kind == "decode"]
    prefill = times.sums.get(("prefill", 0))
    score = times.sums.get(("score", 0))
    infer = {task: times.sums[key] for task in tasks if (key := ("infer", task)) in times.sums}
    return replace(
        GUESS,
        decode=decode_curve(decode) if decode else GUESS.decode,
        prefill_ms=prefill.ms / prefill.size if prefill and prefill.ms else GUESS.prefill_ms,
        infer_ms={task: sums.ms / sums.size for task, sums in infer.items()},
        max_rows=max_rows,
        link=link,
        score_ms=score.ms / score.count if score else 0.0,
        score_workers=score_workers,
    )


def decode_curve(classes: Sequence[Sums]) -> DecodeCurve:
    """Through the mean step of each class of rows. A larger batch never takes less: noise must not make it look so."""
    points: dict[int, float] = {}
    longest = 0.0
    for sums in sorted(classes, key=lambda each: each.size / each.count):
        longest = max(longest, sums.ms / sums.count, 1e-6)
        points[max(1, round(sums.size / sums.count))] = longest
    if len(points) == 1:
        ((rows, ms),) = points.items()
        points[rows + 1] = ms
    return DecodeCurve(tuple(points.items()))


def gathered(times: StepTimes) -> StepTimes:
    """What all ranks measured, together and the same on each. A collective of all ranks."""
    found = StepTimes()
    for rows in all_gather_object(times.to_rows()):
        found.absorb(rows)
    return found


def measured_link(place: Place, *, bytes_per_token: int, device: torch.device) -> Link | None:
    """The way from a rank to its counterpart in another instance; None for one instance. A collective of all ranks."""
    if len(place.ranks) < 2:
        return None
    small_ms, large_ms = (_message_ms(place, size=size, device=device) for size in (_SMALL, _LARGE))
    slowest = [max(each) for each in zip(*all_gather_object([small_ms, large_ms]), strict=True)]
    per_ms = (_LARGE - _SMALL) / max(slowest[1] - slowest[0], 1e-3)
    return Link(bytes_per_token=bytes_per_token, bytes_per_ms=per_ms, latency_ms=slowest[0])


def _message_ms(place: Place, *, size: int, device: torch.device) -> float:
    """The fastest of some rounds in which every instance sends to the next one."""
    count = len(place.ranks)
    to, back = (place.peer((place.instance + step) % count) for step in (1, -1))
    sent, received = (torch.zeros(size, dtype=torch.uint8, device=device) for _ in range(2))
    fastest = float("inf")
    for _ in range(_REPEATS):
        began = time.perf_counter()
        moves = [dist.P2POp(dist.isend, sent, to), dist.P2POp(dist.irecv, received, back)]
        for work in dist.batch_isend_irecv(moves):
            work.wait()
        int(received[-1])  # on a GPU: until it is there
        fastest = min(fastest, 1e3 * (time.perf_counter() - began))
    return fastest
