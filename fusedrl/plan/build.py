"""From ways of calls to the tables of a search: prices, moves between layouts, and actor and critic fused or apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fusedrl.plan.calls import CALLS, PHASE, Call, Way
from fusedrl.plan.fused import fused_parts, may_fuse
from fusedrl.plan.memory import Memory, stages_of, weights
from fusedrl.plan.meshes import Mesh
from fusedrl.plan.moves import move_seconds, same_weights
from fusedrl.plan.price import Price, Pricer
from fusedrl.plan.search.prune import keep, prune
from fusedrl.plan.search.space import Move, Space, Unit
from fusedrl.plan.streamed import STREAMED, may_stream, streamed_price

Ways = Mapping[str, Sequence[Way]]
TRAINING = ("actor_train", "critic_train")
STREAM = "generation+inference"
FUSED = "actor_train+critic_train"
EXACT = 8  # ranks of a cluster up to which no way is left out
PAIRS = 16  # ways of fused training that a mesh keeps on larger ones


@dataclass(frozen=True, eq=False)
class Table:
    """A space and what its units' ways are: of each unit its calls and, by way, one Way for each call."""

    space: Space
    calls: tuple[tuple[str, ...], ...]
    ways: tuple[tuple[tuple[Way, ...], ...], ...]

    def plan(self, choice: Sequence[int]) -> dict[str, Way]:
        """Call -> way of a choice."""
        return {
            call: way for u, k in enumerate(choice) for call, way in zip(self.calls[u], self.ways[u][k], strict=True)
        }

    def choice(self, plan: Mapping[str, Way]) -> tuple[int, ...] | None:
        """The other way round; None where a way is not in the table."""
        found = []
        for calls, ways in zip(self.calls, self.ways, strict=True):
            wanted = tuple(plan[call] for call in calls)
            if wanted not in ways:
                return None
            found.append(ways.index(wanted))
        return tuple(found)


def table(pricer: Pricer, ways: Ways, *, fused: bool, streamed: bool = False) -> Table:
    """Of calls in CALLS' order. One unit: both trainings where fused, generation and all inference where streamed."""
    together = (*(TRAINING if fused else ()), *(STREAMED if streamed else ()))
    names: list[tuple[str, ...]] = [(name,) for name in CALLS if name in ways and name not in together]
    made = [_single(pricer, CALLS[name], ways[name]) for (name,) in names]
    if streamed:
        made.append(_streamed(pricer, ways))
        names.append(tuple(name for name in STREAMED if name in ways))
    if fused:
        made.append(_fused(pricer, ways))
        names.append(TRAINING)
    units = tuple(unit for unit, _ in made)
    own = tuple(rows for _, rows in made)
    cluster = pricer.costs.cluster
    moves = tuple(
        _move(pricer, CALLS[call], (u, s), own[u], own[s], names[s])
        for u in range(len(names))
        for call in _copied(names[u])
        for s in range(len(names))
        if CALLS[call].source in names[s]
    )
    return Table(Space(cluster.world, cluster.device.room, units, moves), tuple(names), own)


def _copied(calls: tuple[str, ...]) -> tuple[str, ...]:
    """The calls of a unit whose weights come to it, each model once."""
    return tuple({CALLS[call].model: call for call in reversed(calls)}.values())


def lean(pricer: Pricer, call: str, ways: Sequence[Way]) -> list[Way]:
    """Of ways that differ in sizes alone (same ranks, tp, pp, cp) those that none beats; moves are alike for them."""
    unit, _ = _single(pricer, CALLS[call], ways)
    groups: dict[tuple[int, ...], list[int]] = {}
    for k, way in enumerate(ways):
        groups.setdefault((*way.shape, way.cp), []).append(k)
    room = pricer.costs.cluster.device.room
    kept: list[Way] = []
    for members in groups.values():
        part = Space(1, room, (keep(Space(1, room, (unit,)), (np.array(members),)).units[0],))
        kept += [ways[members[int(k)]] for k in prune(part)[1][0]]
    return kept or list(ways)  # where none fits by itself, the search says by how much


def _single(pricer: Pricer, call: Call, ways: Sequence[Way]) -> tuple[Unit, tuple[tuple[Way, ...], ...]]:
    prices = [pricer.price(call, way) for way in ways]
    rows = tuple((way,) for way in ways)
    return _unit(call.name, PHASE[call.kind], ways, prices), rows


def _unit(name: str, phase: int, ways: Sequence[Way], prices: Sequence[Price]) -> Unit:
    held = np.array([price.held.total for price in prices], dtype=float)
    return Unit(
        name,
        phase,
        np.array([price.seconds for price in prices], dtype=float),
        np.array([way.mesh.first for way in ways], dtype=np.int64),
        np.array([way.mesh.end for way in ways], dtype=np.int64),
        np.repeat(held[:, None], 3, axis=1),
        np.array([price.burst for price in prices], dtype=float),
    )


def _streamed(pricer: Pricer, ways: Ways) -> tuple[Unit, tuple[tuple[Way, ...], ...]]:
    count = sum(name in ways for name in STREAMED)
    found = [way for way in ways["actor_gen"] if may_stream(pricer, way)]
    prices = [streamed_price(pricer, way) for way in found]
    return _unit(STREAM, PHASE["generate"], found, prices), tuple((way,) * count for way in found)


def _fused(pricer: Pricer, ways: Ways) -> tuple[Unit, tuple[tuple[Way, ...], ...]]:
    by_mesh: dict[Mesh, list[Way]] = {}
    for way in ways[TRAINING[1]]:
        by_mesh.setdefault(way.mesh, []).append(way)
    pairs = [(a, c) for a in ways[TRAINING[0]] for c in by_mesh.get(a.mesh, ()) if may_fuse(a, c)]
    if pricer.costs.cluster.world > EXACT:
        pairs = _fastest(pricer, pairs)
    rows = tuple(pairs)
    prices = [fused_price(pricer, *row) for row in rows]
    return _unit(FUSED, PHASE["train"], [row[0] for row in rows], prices), rows


def _fastest(pricer: Pricer, pairs: Sequence[tuple[Way, Way]]) -> list[tuple[Way, Way]]:
    """For each mesh the fastest pairs, and the one that holds least."""
    by_mesh: dict[Mesh, list[tuple[Way, Way]]] = {}
    for pair in pairs:
        by_mesh.setdefault(pair[0].mesh, []).append(pair)
    kept: list[tuple[Way, Way]] = []
    for found in by_mesh.values():
        ranked = sorted(found, key=lambda pair: fused_price(pricer, *pair).seconds)
        least = min(found, key=lambda pair: fused_price(pricer, *pair).running.total)
        kept += dict.fromkeys([*ranked[:PAIRS], least])
    return kept


def fused_price(pricer: Pricer, actor: Way, critic: Way) -> Price:
    """Of both trainings as one; their activations are held at the same time, their optimizers' steps are one by one."""
    return _fused_price(pricer, pricer.moved(actor), pricer.moved(critic))


@lru_cache(maxsize=200_000)
def _fused_price(pricer: Pricer, actor: Way, critic: Way) -> Price:
    a, c = pricer.price(CALLS["actor_train"], actor), pricer.price(CALLS["critic_train"], critic)
    held = a.held + c.held
    both = a.running + c.running
    burst = {kind: both.kinds[kind] for kind in ("activations", "buffers")}
    if actor.pp == critic.pp > 1:  # a rank that holds many of one model's micro-batches holds few of the other's
        most = max(a.running.kinds["activations"], c.running.kinds["activations"])
        burst["activations"] = min(burst["activations"], most * (actor.pp + 1) / actor.pp)
    burst["logits"] = max(a.running.kinds.get("logits", 0.0), c.running.kinds.get("logits", 0.0))
    parts = fused_parts(a, c, updates=pricer.work.updates)
    return Price(parts, held, held + Memory(burst))


def _move(
    pricer: Pricer,
    call: Call,
    places: tuple[int, int],
    targets: Sequence[tuple[Way, ...]],
    sources: Sequence[tuple[Way, ...]],
    names: tuple[str, ...],
) -> Move:
    """Seconds and the copy's bytes, once for each pair of different shapes."""
    model, at = pricer.models[call.model], names.index(str(call.source))
    froms, tos = [row[at] for row in sources], [row[0] for row in targets]
    kinds_from, from_S = _kinds(froms)
    kinds_to, to_K = _kinds(tos)
    seconds = np.array([[move_seconds(pricer.costs, model, source=s, target=t) for t in kinds_to] for s in kinds_from])
    if call.kind == "infer" and not pricer.own_inference:
        alike = np.array([[same_weights(s, t) for t in kinds_to] for s in kinds_from])
        seconds = np.where(alike, seconds, np.inf)
    copies = np.array(
        [[0.0 if same_weights(s, t) else copy_bytes(pricer, call, t) for t in kinds_to] for s in kinds_from]
    )
    seconds, copies = (each.reshape(len(kinds_from), len(kinds_to)) for each in (seconds, copies))
    return Move(*places, seconds[np.ix_(from_S, to_K)], copies[np.ix_(from_S, to_K)])


def _kinds(ways: Sequence[Way]) -> tuple[list[Way], list[int]]:
    numbers: dict[tuple[object, ...], int] = {}
    first: list[Way] = []
    of = []
    for way in ways:
        key = (*way.shape, way.zero)
        if key not in numbers:
            numbers[key] = len(first)
            first.append(way)
        of.append(numbers[key])
    return first, of


def copy_bytes(pricer: Pricer, call: Call, way: Way) -> float:
    """Weights of a rank, for the time of the call."""
    model, dtype = pricer.models[call.model], pricer.costs.dtype
    most = max(weights(model, stage, way.layout, dtype=dtype).total for stage in stages_of(model, way.layout))
    return most / way.dp if way.zero else most
