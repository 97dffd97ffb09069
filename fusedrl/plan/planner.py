"""Finds plans: the ways of all calls, cut to those worth a look, searched with training fused and apart.

On clusters of up to `EXACT` ranks no way is left out, but for those that another beats in every respect: a plan that is
proved is the best of the whole space. On larger ones each call keeps, for each mesh, its fastest layouts and the one
that holds least; the proof is then over those.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from fusedrl.plan.build import EXACT, TRAINING, Table, fused_price, lean, table
from fusedrl.plan.calls import CALLS, Call, Limits, Way, ways
from fusedrl.plan.fused import may_fuse
from fusedrl.plan.memory import Memory
from fusedrl.plan.meshes import Mesh, meshes
from fusedrl.plan.price import Price, Pricer
from fusedrl.plan.search.descent import descend
from fusedrl.plan.search.find import Settings, find
from fusedrl.plan.search.kernel import tables
from fusedrl.plan.search.space import PHASES, Outcome
from fusedrl.plan.streamed import STREAMED, may_stream, streamed_price

SHAPES = 4  # layouts of a mesh that a call keeps on larger clusters
Tell = Callable[[str], None]
AllWays = dict[str, list[Way]]
Mode = tuple[bool, bool]
MODES: tuple[Mode, ...] = ((True, False), (False, False), (True, True), (False, True))


@dataclass(frozen=True, eq=False)
class Plan:
    """A way for each call. fused: actor and critic train in one pass. streamed: generation and inference are one flow
    on the engines. proved: see Found. outcome: seconds, memory."""

    name: str
    pricer: Pricer
    ways: Mapping[str, Way]
    fused: bool
    streamed: bool = False
    proved: bool = False
    tried: int = 0

    @cached_property
    def outcome(self) -> Outcome:
        return self._table.space.outcome(self._choice)

    @property
    def seconds(self) -> float:
        """Predicted, of a step."""
        return self.outcome.seconds

    @property
    def phases(self) -> dict[str, float]:
        """Seconds of each phase; they follow each other."""
        return {name: self._table.space.span(self._choice, p) for p, name in enumerate(PHASES)}

    def price(self, call: str) -> Price:
        """Of a call; of fused training that of both, of a stream that of all its calls."""
        if self.fused and call in TRAINING:
            return fused_price(self.pricer, self.ways[TRAINING[0]], self.ways[TRAINING[1]])
        if self.streamed and call in STREAMED:
            return streamed_price(self.pricer, self.ways["actor_gen"])
        return self.pricer.price(CALLS[call], self.ways[call])

    def spans(self) -> list[tuple[str, Way, float, float, float]]:
        """(unit, way, start, seconds of moved weights, end) of all units, in seconds of the step."""
        space, found, begun = self._table.space, [], 0.0
        for phase in range(len(PHASES)):
            for u, start in space.starts(self._choice, phase).items():
                took, way = space.duration(self._choice, u), self._table.ways[u][0][0]
                moved = took - float(space.units[u].seconds_K[0])
                found.append((space.units[u].name, way, begun + start, moved, begun + start + took))
            begun += space.span(self._choice, phase)
        return found

    def memory(self) -> dict[tuple[int, str], Memory]:
        """(rank, phase) -> bytes by kind, at ranks where some call begins."""
        space = self._table.space
        return {(rank, PHASES[p]): self._held(rank, p) for rank, p in space.memory(self._choice)}

    def misfit(self) -> str | None:
        """Where and by how much it does not fit; None where it does."""
        room = self.pricer.costs.cluster.device.room
        where, most = max(self.memory().items(), key=lambda item: item[1].total)
        told = most.misfit(room)
        return None if told is None else f"rank {where[0]} in {where[1]}: {told}"

    @cached_property
    def _table(self) -> Table:
        ways = {call: [way] for call, way in self.ways.items()}
        return table(self.pricer, ways, fused=self.fused, streamed=self.streamed)

    @property
    def _choice(self) -> tuple[int, ...]:
        return (0,) * len(self._table.calls)

    def _held(self, rank: int, phase: int) -> Memory:
        found, space, most = Memory(), self._table.space, Memory()
        for u, calls in enumerate(self._table.calls):
            if not space.on(self._choice, u, rank):
                continue
            price = self.price(calls[0])
            found += price.held
            if space.units[u].phase == phase:
                extra = price.running.total - price.held.total
                rest = {k: max(0.0, v - price.held.kinds.get(k, 0.0)) for k, v in price.running.kinds.items()}
                burst = Memory(rest) if extra > 0 else Memory()
                most = most.most(burst + Memory({"weights": space.need(self._choice, u) - price.burst}))
        return found + most


def best_plan(
    pricer: Pricer, *, limits: Limits, settings: Settings, known: Sequence[Plan] = (), tell: Tell = lambda _: None
) -> Plan | None:
    """The fastest plan that fits, training fused or apart, in stages or streamed; known: plans to begin from."""
    every = all_ways(pricer, limits=limits, known=known)
    tell("ways of calls: " + ", ".join(f"{call} {len(found)}" for call, found in every.items()))
    return solve("best", pricer, every, settings=settings, known=known, tell=tell)


def solve(
    name: str,
    pricer: Pricer,
    every: Mapping[str, Sequence[Way]],
    *,
    settings: Settings,
    modes: Sequence[Mode] = MODES,
    known: Sequence[Plan] = (),
    tell: Tell = lambda _: None,
) -> Plan | None:
    """The best plan of these ways; proved where each of the searches was. modes: (fused, streamed)."""
    found: list[Plan] = []
    proofs: list[bool] = []
    for fused, streamed in modes:
        own = streaming(pricer, every) if streamed else every
        if (fused and not _can_fuse(own)) or not all(own.values()):
            continue
        made = table(pricer, own, fused=fused, streamed=streamed)
        alike = [plan for plan in known if (plan.fused, plan.streamed) == (fused, streamed)]
        starts = [choice for plan in alike if (choice := made.choice(plan.ways)) is not None]
        told = f"{'fused' if fused else 'apart'}, {'streamed' if streamed else 'in stages'}"
        best = find(made.space, settings=settings, starts=starts, tell=partial(_tell_mode, tell, told))
        if best is not None:
            found.append(Plan(name, pricer, made.plan(best.choice), fused, streamed, best.proved, best.tried))
            proofs.append(best.proved)
    if not found:
        return None
    best_of = min(found, key=lambda plan: plan.seconds)
    return Plan(
        name, pricer, best_of.ways, best_of.fused, best_of.streamed, all(proofs), sum(plan.tried for plan in found)
    )


def streaming(pricer: Pricer, every: Mapping[str, Sequence[Way]]) -> AllWays:
    """Ways of a streamed step: engines of one stage, all models on all ranks."""
    call, cluster, whole = CALLS["actor_gen"], pricer.costs.cluster, Mesh(0, pricer.costs.cluster.world)
    model = pricer.models[call.model]
    engines = ways(
        call,
        model,
        pricer.work,
        cluster=cluster,
        meshes=[whole],
        widths=pricer.costs.widths(model),
        limits=Limits(),
    )
    found = [way for way in engines if may_stream(pricer, way)]
    own = {
        name: found if name in STREAMED else [way for way in kept if way.mesh == whole] for name, kept in every.items()
    }
    return own


def _tell_mode(tell: Tell, mode: str, line: str) -> None:
    tell(f"{mode}: {line}")


def _can_fuse(every: Mapping[str, Sequence[Way]]) -> bool:
    return set(TRAINING) <= set(every) and any(may_fuse(a, c) for a in every[TRAINING[0]] for c in every[TRAINING[1]])


def nearest(name: str, pricer: Pricer, every: Mapping[str, Sequence[Way]]) -> Plan:
    """Where nothing fits: the plan that is over by least, to say by how much."""
    made = table(pricer, every, fused=False)
    choice, _ = descend(tables(made.space), made.space, starts=(), restarts=8, seed=0)
    return Plan(name, pricer, made.plan([int(k) for k in choice]), fused=False)


def all_ways(pricer: Pricer, *, limits: Limits, known: Sequence[Plan] = ()) -> AllWays:
    """Of each call the ways worth a look, and those of known plans, but for ZeRO-3, which the trainer has not."""
    cluster = pricer.costs.cluster
    places = meshes(nodes=cluster.nodes, devices=cluster.devices, smallest=limits.smallest_of(cluster))
    found: AllWays = {}
    for name, call in CALLS.items():
        if call.model not in pricer.models:
            continue
        model = pricer.models[call.model]
        widths = pricer.costs.widths(model)
        every = list(ways(call, model, pricer.work, cluster=cluster, meshes=places, widths=widths, limits=limits))
        kept = lean(pricer, name, every)
        kept = kept if cluster.world <= EXACT else _few(pricer, call, kept)
        found[name] = list(
            dict.fromkeys(
                [*kept, *(way for plan in known if (way := plan.ways.get(name)) is not None and not way.zero)]
            )
        )
    return found


def _few(pricer: Pricer, call: Call, every: Sequence[Way]) -> list[Way]:
    """For each mesh the fastest layouts, all sizes of them, and the way that holds and needs least."""
    by_mesh: dict[object, list[Way]] = {}
    for way in sorted(every, key=lambda way: pricer.price(call, way).seconds):
        by_mesh.setdefault(way.mesh, []).append(way)
    kept: list[Way] = []
    for found in by_mesh.values():
        shapes = list(dict.fromkeys(way.shape for way in found))[:SHAPES]
        least = min(found, key=lambda way: pricer.price(call, way).most)
        kept += dict.fromkeys([*(way for way in found if way.shape in shapes), least])
    return kept
