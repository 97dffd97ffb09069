"""Searches a space: prune, descend from many starts, then branch and bound from the best of them; or another method."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fusedrl.plan.search.branch import branch
from fusedrl.plan.search.descent import descend
from fusedrl.plan.search.kernel import tables
from fusedrl.plan.search.mcmc import walk
from fusedrl.plan.search.prune import prune
from fusedrl.plan.search.space import Array, Outcome, Space, exhaustive

METHODS = ("auto", "mcmc", "exhaustive")
MOST = 2_000_000  # choices that exhaustive tries at most
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """method: auto (descent, then branch and bound), mcmc or exhaustive. nodes: branches looked at, at most. steps,
    beta: of the Metropolis walk."""

    method: str = "auto"
    seed: int = 0
    restarts: int = 32
    nodes: int = 5_000_000
    steps: int = 200_000
    beta: float = 100.0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"search.method={self.method}: must be one of {', '.join(METHODS)}")
        for key in ("restarts", "nodes", "steps"):
            if getattr(self, key) < 1:
                raise ValueError(f"search.{key}={getattr(self, key)}: must be 1 or more")
        if self.beta <= 0:
            raise ValueError(f"search.beta={self.beta:g}: must be above 0")


@dataclass(frozen=True, kw_only=True)
class Found:
    """A choice by the numbers of the space's own ways. proved: no choice that fits is faster. tried: how many choices,
    made in part or whole, were looked at; 0 where that was not counted."""

    choice: tuple[int, ...]
    outcome: Outcome
    proved: bool
    tried: int = 0


def find(
    space: Space, *, settings: Settings, starts: Sequence[Sequence[int]] = (), tell: Tell = lambda _: None
) -> Found | None:
    """The best choice that the method finds; None where none fits. starts: choices to begin from."""
    if any(unit.ways == 0 for unit in space.units):
        return None
    if settings.method == "exhaustive":
        return _exhaustive(space)
    smaller, kept = prune(space)
    if any(unit.ways == 0 for unit in smaller.units):
        return None
    tell(f"{' x '.join(str(unit.ways) for unit in smaller.units)} ways")
    if settings.method == "mcmc":
        walked, _ = walk(tables(smaller), smaller, steps=settings.steps, beta=settings.beta, seed=settings.seed)
        best, proved, tried = [int(k) for k in walked], False, settings.steps
    else:
        best, proved, tried = _auto(smaller, settings, [_renumbered(start, kept) for start in starts], tell)
    choice = tuple(int(ways[k]) for ways, k in zip(kept, best, strict=True))
    outcome = space.outcome(choice) if min(best) >= 0 else None
    return (
        None
        if outcome is None or not outcome.fits
        else Found(choice=choice, outcome=outcome, proved=proved, tried=tried)
    )


def _auto(
    space: Space, settings: Settings, starts: Sequence[Sequence[int] | None], tell: Tell
) -> tuple[list[int], bool, int]:
    t = tables(space)
    known = [start for start in starts if start is not None]
    first, seconds = descend(t, space, starts=known, restarts=settings.restarts, seed=settings.seed)
    tell(f"descent: {seconds:.4g} s")
    start = [int(k) for k in first] if seconds < float("inf") else None
    best, seconds, proved, tried = branch(t, space, start=start, nodes=settings.nodes)
    tell(f"branch and bound: {seconds:.4g} s, {tried} branches, {'proved' if proved else 'not all looked at'}")
    return [int(k) for k in best], proved, tried


def _renumbered(choice: Sequence[int], kept: Sequence[Array]) -> list[int] | None:
    """A choice in a pruned space's numbers; None where a way of it is gone."""
    found = [{int(k): i for i, k in enumerate(ways)}.get(way) for way, ways in zip(choice, kept, strict=True)]
    return None if None in found else [way for way in found if way is not None]


def _exhaustive(space: Space) -> Found | None:
    if space.size > MOST:
        raise ValueError(
            f"search.method=exhaustive: {space.size} choices, more than {MOST}; take auto, or a smaller cluster"
        )
    best = exhaustive(space)
    return None if best is None else Found(choice=best[0], outcome=best[1], proved=True, tried=space.size)
