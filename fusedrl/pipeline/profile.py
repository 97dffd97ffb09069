"""What the stages of this run take, learned from the timelines of its passes: durations for the plans to come.

    ms(model, kind, stage) = base + rate * amount        amount: what the counted cost says of (rows, length), GFLOP

Base and rate are medians (Theil 1950, Sen 1968): up to 29 % of the measurements may be arbitrarily wrong. A model's
first pass is left out, it pays for what is made once. Fits in use stay until the newer ones differ from them by a
tenth: plans, and with them the orders kept, do not change for noise.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fusedrl.pipeline.costs import Cost
from fusedrl.pipeline.plan import Planned, fusion_of
from fusedrl.pipeline.timeline import TimedOp, Timeline, measured_problem
from schedules.forms import entry
from schedules.order import Op
from schedules.problem import Kind, Model, Problem

Series = tuple[str, Kind, int]
"""(model, kind, stage); B is the whole backward."""
MESSAGE: Series = ("", "F", -1)  # the time of a message, the same for all

WARM_UP = 1  # first passes of a model, left out
LEAST_PASSES = 2  # after them, and
LEAST_POINTS = 6  # of each series, before it is believed
_KEPT = 128  # points of a series; older ones go
_ONE_SIZE = 0.05  # amounts that lie closer than this share of the largest say nothing about a slope
_TOLERANCE, _TOLERANCE_OF_MESSAGES = 0.1, 0.5


@dataclass(frozen=True)
class Fit:
    """A duration in ms as a line over the counted amount. typical: the median of the amounts that it was made from."""

    base: float
    rate: float
    typical: float = 0.0

    def __call__(self, amount: float) -> float:
        return self.base + self.rate * amount

    def near(self, other: "Fit", *, tolerance: float = _TOLERANCE) -> bool:
        """Whether the other says the same of what it was made from, up to a share of it."""
        mine, theirs = self(other.typical), other(other.typical)
        return abs(mine - theirs) <= tolerance * max(mine, theirs)


Fits = Mapping[Series, Fit]


def fit_line(points: Sequence[tuple[float, float]]) -> Fit:
    """The line through (amount, ms) that half of the pairs lie above; neither base nor rate is negative."""
    amounts, times = np.array(points, dtype=np.float64).T
    typical, middle = float(np.median(amounts)), float(np.median(times))
    first, second = np.triu_indices(len(amounts), 1)
    apart = np.abs(amounts[second] - amounts[first]) > _ONE_SIZE * amounts.max()
    if not apart.any():
        return _through_origin(amounts, times) if amounts.min() > 0 else Fit(middle, 0.0, typical)
    rise, run = (times[second] - times[first])[apart], (amounts[second] - amounts[first])[apart]
    rate = float(np.median(rise / run))
    base = float(np.median(times - rate * amounts))
    if rate <= 0:
        return Fit(middle, 0.0, typical)
    return Fit(base, rate, typical) if base >= 0 or amounts.min() <= 0 else _through_origin(amounts, times)


def _through_origin(amounts: np.ndarray, times: np.ndarray) -> Fit:
    return Fit(0.0, float(np.median(times / amounts)), float(np.median(amounts)))


class Profile:
    """Durations of past passes. `fits` gives what can be said by now."""

    def __init__(self) -> None:
        self._points: dict[Series, deque[tuple[float, float]]] = defaultdict(lambda: deque(maxlen=_KEPT))
        self._passes: Counter[str] = Counter()

    def add(self, models: Sequence[Planned], problem: Problem, timeline: Timeline) -> None:
        """A training pass: the models as planned with counted costs, its problem, and when its ops ran."""
        measured, fusion = measured_problem(problem, timeline), fusion_of(models)
        for planned in models:
            self._passes[planned.name] += 1
            if self._passes[planned.name] > WARM_UP:
                for copy in fusion.copies_of(planned.name):
                    self._add(planned, measured.model(copy.name))
        if all(self._passes[planned.name] > WARM_UP for planned in models):
            self._points[MESSAGE].extend((0.0, 1e3 * delay) for delay in message_delays(timeline))

    def _add(self, planned: Planned, model: Model) -> None:
        """One copy's durations, which measure the same stages as the other copies'."""
        forms = {"F": model.forward, "B": model.backward, "W": model.backward_weight}
        for stage in range(model.stages):
            for m, (rows, length) in enumerate(planned.shapes):
                for kind, amount in _amounts(planned.cost, stage, rows=rows, length=length):
                    if (seconds := entry(forms[kind] or 0.0, stage, m)) > 0:
                        self._points[planned.name, kind, stage].append((amount, 1e3 * seconds))

    def fits(self, old: Fits) -> Fits:
        """A fit of each series with enough measurements; those of `old` where they are still near."""
        found = {series: fit_line(list(points)) for series, points in self._points.items() if self._is_known(series)}
        return dict(old) | {s: fit for s, fit in found.items() if s not in old or not _keeps(s, old[s], fit)}

    def _is_known(self, series: Series) -> bool:
        passes = LEAST_PASSES if series == MESSAGE else self._passes[series[0]] - WARM_UP
        return passes >= LEAST_PASSES and len(self._points[series]) >= LEAST_POINTS


@dataclass(frozen=True)
class MeasuredCost:
    """Times in ms by the fits, memory as counted. A weight part that was never split off is its counted share of B."""

    counted: Cost
    name: str
    fits: Fits

    def forward(self, stage: int, *, rows: float, length: float) -> float:
        return _rounded(self.fits[self.name, "F", stage](self.counted.forward(stage, rows=rows, length=length)))

    def backward(self, stage: int, *, rows: float, length: float) -> float:
        return _rounded(self.fits[self.name, "B", stage](self.counted.backward(stage, rows=rows, length=length)))

    def weight(self, stage: int, *, rows: float, length: float) -> float:
        whole = self.backward(stage, rows=rows, length=length)
        amount = self.counted.weight(stage, rows=rows, length=length)
        if (fit := self.fits.get((self.name, "W", stage))) is not None:
            return min(whole, _rounded(fit(amount)))
        counted = self.counted.backward(stage, rows=rows, length=length)
        return whole * amount / counted if counted > 0 else 0.0

    def activation(self, stage: int, *, rows: float, length: float) -> float:
        return self.counted.activation(stage, rows=rows, length=length)


def measured(models: Sequence[Planned], fits: Fits) -> list[Planned] | None:
    """The models with measured costs; None as long as a stage of one is not measured: units do not mix."""
    needed = {(m.name, kind, s) for m in models for s in range(len(m.placement())) for kind in ("F", "B")}
    if not needed <= set(fits):
        return None
    return [replace(model, cost=MeasuredCost(model.cost, model.name, fits)) for model in models]


def message_time(fits: Fits) -> float:
    """ms; 0 where no rank has waited for one yet."""
    return _rounded(fits[MESSAGE].base) if MESSAGE in fits else 0.0


def message_delays(timeline: Timeline) -> Iterator[float]:
    """Seconds from the end of an op to the start of one on another rank that was waiting for it by then.

    The i-th of an op's ranks waits for the i-th of those that ran the op before: both have the same coordinates but
    for the stage."""
    ran: dict[Op, dict[int, TimedOp]] = defaultdict(dict)
    for rank, row in enumerate(timeline.ranks):
        for timed in row:
            ran[timed.op][rank] = timed
    for rank, row in enumerate(timeline.ranks):
        for timed in row:
            if timed.asked is None:
                continue
            source = replace(timed.op, stage=timed.op.stage + (-1 if timed.op.kind == "F" else 1))
            made = list(ran[source].values())[list(ran[timed.op]).index(rank)]
            if timed.asked <= made.end:
                yield max(0, timed.start - made.end) / 1e9


def to_rows(fits: Fits) -> list[list[object]]:
    """Plain lists, for collectives."""
    return [[*series, fit.base, fit.rate, fit.typical] for series, fit in fits.items()]


def from_rows(rows: Sequence[Sequence]) -> dict[Series, Fit]:
    return {(model, kind, stage): Fit(*numbers) for model, kind, stage, *numbers in rows}


def _keeps(series: Series, old: Fit, new: Fit) -> bool:
    return old.near(new, tolerance=_TOLERANCE_OF_MESSAGES if series == MESSAGE else _TOLERANCE)


def _amounts(cost: Cost, stage: int, *, rows: float, length: float) -> tuple[tuple[Kind, float], ...]:
    size = {"rows": rows, "length": length}
    return ("F", cost.forward(stage, **size)), ("B", cost.backward(stage, **size)), ("W", cost.weight(stage, **size))


def _rounded(ms: float) -> float:
    """To a microsecond: no clock and no plan is finer."""
    return round(ms, 3)
