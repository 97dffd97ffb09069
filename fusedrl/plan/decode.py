"""Generation on one engine: how long until the last of its responses is whole. Continuous batching, replayed.

    time of a step = layers x decode(rows, context) + ends        rows: those not yet ended, at most the engine's
                     with pp stages: pp batches in flight, each of rows / pp, and a message a stage

Between two ends nothing changes but the context, so that an engine is advanced from one ended response to the next. The
decode costs are read off a table by rows, straight in the context, as reading keys and values is.
"""

import heapq
from dataclasses import dataclass

import numpy as np

from fusedrl.plan.calls import Way
from fusedrl.plan.costs import Costs
from fusedrl.plan.sizes import ModelSizes
from fusedrl.plan.workload import Workload

Array = np.ndarray
_POINTS = 24  # of the table, evenly in the logarithm of rows


@dataclass(frozen=True)
class Generated:
    """Seconds of prefill and of decoding of the slowest engine; the most tokens in a cache at once; `idle`: share of
    the engines' time, all together, in which they have nothing left (the tail)."""

    prefill: float
    decode: float
    peak_tokens: float
    idle: float


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Seconds of a step by rows (from 0): at no context, and more for each token of context."""

    base_R: Array
    slope_R: Array

    def seconds(self, rows: int, context: float) -> float:
        return float(self.base_R[rows] + self.slope_R[rows] * context)


def generate(costs: Costs, model: ModelSizes, way: Way, work: Workload) -> Generated:
    """Samples are dealt to engines in turn, so that copies of a prompt lie apart."""
    times = step_times(costs, model, way, longest=work.row)
    one = model.layers * costs.prefill(model, tp=way.tp, tokens=float(work.prompt), length=float(work.prompt)) / way.pp
    ends = [
        replay(times, work.response_N[engine :: way.dp], rows=way.size, prompt=work.prompt) for engine in range(way.dp)
    ]
    counts = [len(work.response_N[engine :: way.dp]) for engine in range(way.dp)]
    prefill = max(counts) * one + (way.pp - 1) * one
    slowest = max(seconds for seconds, _ in ends)
    mean = sum(seconds for seconds, _ in ends) / way.dp
    return Generated(prefill, slowest, max(peak for _, peak in ends), 1 - mean / slowest if slowest else 0.0)


def step_times(costs: Costs, model: ModelSizes, way: Way, *, longest: int) -> StepTimes:
    """The table of an engine: up to the way's rows."""
    rows = np.unique(np.rint(np.geomspace(1, max(1, way.size), _POINTS)).astype(int))
    base = [_step(costs, model, way, rows=int(count), context=1.0) for count in rows]
    full = [_step(costs, model, way, rows=int(count), context=float(longest)) for count in rows]
    slope = (np.array(full) - np.array(base)) / max(1, longest - 1)
    every = np.arange(way.size + 1)
    return StepTimes(np.interp(every, rows, base), np.interp(every, rows, slope))


def replay(times: StepTimes, length_N: Array, *, rows: int, prompt: int) -> tuple[float, float]:
    """(seconds until all are whole, most tokens in the cache at once). Waiting samples take free rows in turn.

    Of a step the rows and their mean context count; `at`: steps so far; a sample that is seated at step s with l tokens
    to make ends at step s + l.
    """
    waiting = length_N.tolist()[::-1]
    seated: list[tuple[int, int]] = []  # (step of the end, step of the seat)
    seconds, peak, at, seats = 0.0, 0.0, 0, 0
    while waiting or seated:
        while waiting and len(seated) < rows:
            heapq.heappush(seated, (at + waiting.pop(), at))
            seats += at
        count, end = len(seated), seated[0][0]
        begun = prompt + at - seats / count  # mean context now
        seconds += (end - at) * times.seconds(count, begun + (end - at) / 2)
        peak = max(peak, count * (begun + end - at))
        at = end
        while seated and seated[0][0] == end:
            seats -= heapq.heappop(seated)[1]
    return seconds, peak


def _step(costs: Costs, model: ModelSizes, way: Way, *, rows: int, context: float) -> float:
    each = max(1.0, rows / way.pp)  # rows of a batch in flight; a stage with fewer rows than stages still takes one
    seconds = model.layers * costs.decode(model, tp=way.tp, rows=each, context=context)
    seconds += costs.decode_ends(model, tp=way.tp, rows=each)
    if way.pp > 1:
        across = way.tp * way.dp * way.pp > costs.cluster.devices
        seconds += way.pp * costs.message(2.0 * each * model.arch.hidden_size / way.tp, across_nodes=across)
    return seconds
