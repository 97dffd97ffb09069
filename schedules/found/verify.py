"""Whether a kept order is what its record says: everything that can be computed is computed anew.

A bound above the one that bounds.py computes was proved by a solver. Replay cannot confirm such a bound; that no order
beats it can be checked, and is.
"""

from schedules.bounds import lower_bound
from schedules.check import check
from schedules.found.room import PROBLEM_FILE, Kept, file_name
from schedules.order import OrderError
from schedules.replay import Replay
from schedules.solve import meets

_NEAR = 1e-9  # relative: records hold 12 digits


def verify(kept: Kept) -> Replay:
    """Check a kept order, and its record against its replay. Raises OrderError naming the file and the false claim."""
    try:
        result = check(kept.problem, kept.order)
        _check_record(kept, result)
    except OrderError as error:
        raise OrderError(f"{kept.path}: {error}") from None
    return result


def bound_of(kept: Kept) -> tuple[float, str]:
    """The best bound known for a kept order's problem, and whose it is: `computed` by bounds.py, or a `solver`'s."""
    computed = lower_bound(kept.problem)
    if kept.record.lower_bound > computed * (1 + _NEAR):
        return kept.record.lower_bound, "solver"
    return computed, "computed"


def _check_record(kept: Kept, result: Replay) -> None:
    said = kept.record
    for claim, value, true in (
        ("makespan", said.makespan, result.makespan),
        ("peak memory", said.peak_memory, result.max_peak_memory),
    ):
        if abs(value - true) > _NEAR * true:
            raise OrderError(f"line 2: {claim} {value:g} is said, {true:g} is what replay gives")
    if said.lower_bound > said.makespan * (1 + _NEAR):
        raise OrderError(f"line 2: lower bound {said.lower_bound:g} is above the makespan {said.makespan:g}")
    if said.proved_optimal != meets(said.makespan, said.lower_bound):
        claimed = "proved" if said.proved_optimal else "not proved"
        raise OrderError(
            f"line 2: said to be {claimed}, with makespan {said.makespan:g} and lower bound {said.lower_bound:g}"
        )
    if kept.path.name != file_name(said.memory_cap):
        raise OrderError(
            f"line 2: the best order within its memory cap belongs into {file_name(said.memory_cap)}, "
            f"beside its {PROBLEM_FILE}"
        )
