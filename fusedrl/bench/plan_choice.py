"""The plans that are tried: the best in stages, the heuristics, fitting ones drawn at random, the slowest that fits.

Random plans take any way of each call that divides, also those that a search drops at once. The slowest is climbed to
from the slowest of them: call by call, the way that makes the step longest and still fits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fusedrl.plan.build import TRAINING
from fusedrl.plan.calls import CALLS, Limits, Way, ways
from fusedrl.plan.fused import may_fuse
from fusedrl.plan.heuristics import HEURISTICS, heuristic_plans
from fusedrl.plan.meshes import meshes
from fusedrl.plan.planner import Mode, Plan, all_ways, solve
from fusedrl.plan.price import Pricer
from fusedrl.plan.search.find import Settings

DRAWS = 5000  # plans drawn at most
IN_STAGES: tuple[Mode, ...] = ((True, False), (False, False))  # (fused, streamed): streams are not acted out
Ways = Mapping[str, Sequence[Way]]


def chosen(pricer: Pricer, *, random: int, seed: int, limits: Limits, settings: Settings) -> list[Plan]:
    """Each plan once. Raises ValueError where fewer than `random` plans are found that fit."""
    others = heuristic_plans(pricer, names=list(HEURISTICS), settings=settings, limits=limits)
    fitting = [plan for plan in others.values() if plan is not None and plan.outcome.fits]
    every = all_ways(pricer, limits=limits, known=fitting)
    best = solve("best", pricer, every, settings=settings, modes=IN_STAGES, known=fitting)
    if best is None:
        raise ValueError("no plan fits this cluster")
    every = dividing(pricer, limits=limits)
    drawn = list(draw(pricer, every, count=random, seed=seed))
    if len(drawn) < random:
        raise ValueError(f"random={random}: only {len(drawn)} of {DRAWS} plans drawn fit; ask for fewer")
    start = max([*drawn, *fitting], key=lambda plan: plan.seconds)
    found = {_key(plan): plan for plan in reversed([best, *fitting, *drawn, slowest(pricer, every, start=start)])}
    return list(reversed(found.values()))


def dividing(pricer: Pricer, *, limits: Limits) -> dict[str, list[Way]]:
    """Every way of each call that divides."""
    cluster = pricer.costs.cluster
    places = meshes(nodes=cluster.nodes, devices=cluster.devices, smallest=limits.smallest_of(cluster))
    return {
        name: list(
            ways(
                call,
                pricer.models[call.model],
                pricer.work,
                cluster=cluster,
                meshes=places,
                widths=pricer.costs.widths(pricer.models[call.model]),
                limits=limits,
            )
        )
        for name, call in CALLS.items()
        if call.model in pricer.models
    }


def draw(pricer: Pricer, every: Ways, *, count: int, seed: int) -> Iterator[Plan]:
    """Plans that fit, a mesh for each call drawn first and then a way on it; fused wherever that is possible and a coin
    says so."""
    random, found = np.random.default_rng(seed), 0
    for _ in range(DRAWS):
        if found == count:
            return
        plan = _random(pricer, every, random, name=f"random {found + 1}")
        if plan.outcome.fits:
            found += 1
            yield plan


def slowest(pricer: Pricer, every: Ways, *, start: Plan) -> Plan:
    """No way of a single call makes it slower and still fits."""
    best, name = Plan("slowest", pricer, dict(start.ways), fused=False), "slowest"
    while True:
        tried = (
            Plan(name, pricer, {**best.ways, call: way}, fused=False)
            for call, found in every.items()
            for way in _slow(pricer, call, found)
        )
        slower = max((plan for plan in tried if plan.outcome.fits), key=lambda plan: plan.seconds, default=best)
        if slower.seconds <= best.seconds * (1 + 1e-9):
            return best
        best = slower


def _slow(pricer: Pricer, call: str, found: Sequence[Way]) -> list[Way]:
    """The slowest way of each mesh, with and without what saves memory."""
    kinds: dict[object, Way] = {}
    for way in sorted(found, key=lambda way: pricer.price(CALLS[call], way).seconds):
        kinds[way.mesh, way.recompute, way.resident, way.tp * way.pp] = way
    return list(kinds.values())


def _random(pricer: Pricer, every: Ways, random: np.random.Generator, *, name: str) -> Plan:
    picked = {call: _pick(found, random) for call, found in every.items()}
    actor, critic = (picked.get(call) for call in TRAINING)
    fused = actor is not None and critic is not None and bool(random.integers(2))
    if fused:
        assert actor is not None
        same = [way for way in every[TRAINING[1]] if way.mesh == actor.mesh and may_fuse(actor, way)]
        picked[TRAINING[1]] = same[int(random.integers(len(same)))]
    return Plan(name, pricer, picked, fused=fused)


def _pick(found: Sequence[Way], random: np.random.Generator) -> Way:
    places = sorted({way.mesh for way in found})
    mesh = places[int(random.integers(len(places)))]
    here = [way for way in found if way.mesh == mesh]
    return here[int(random.integers(len(here)))]


def _key(plan: Plan) -> tuple[object, ...]:
    return (plan.fused, *(replace(way) for _, way in sorted(plan.ways.items())))
