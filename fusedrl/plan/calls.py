"""The calls of a step, the models that they are of, and the ways in which a call may run.

    generation   actor_gen                                          the actor's weights come from where it trains
    inference    actor_logp  ref  reward  critic_values             actor and critic's weights too; ref, reward frozen
    training     actor_train  critic_train                          all mini-batches of a step

Every inference reads all samples, and advantages need all of them, so that phases follow each other.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fusedrl.parallel.layout import Layout
from fusedrl.plan.cluster import Cluster
from fusedrl.plan.meshes import Mesh
from fusedrl.plan.sizes import ModelSizes
from fusedrl.plan.workload import Workload

Kind = Literal["generate", "infer", "train"]
PHASE: dict[Kind, int] = {"generate": 0, "infer": 1, "train": 2}


@dataclass(frozen=True)
class Call:
    """source: the call that trains its weights, None for frozen ones and for training itself."""

    name: str
    kind: Kind
    model: str
    source: str | None = None


CALLS = {
    call.name: call
    for call in (
        Call("actor_gen", "generate", "actor", "actor_train"),
        Call("actor_logp", "infer", "actor", "actor_train"),
        Call("ref", "infer", "ref"),
        Call("reward", "infer", "reward"),
        Call("critic_values", "infer", "critic", "critic_train"),
        Call("actor_train", "train", "actor"),
        Call("critic_train", "train", "critic"),
    )
}


@dataclass(frozen=True, order=True)
class Way:
    """How a call runs: its ranks, layout, and tokens of a micro-batch (generation: rows of an engine at once).

    resident: a frozen model's weights stay on the device; else they wait in the CPU's memory and come for the call.
    recompute: training computes whole layers again. zero: weights, gradients and optimizer are split over all ranks and
    gathered layer by layer (ZeRO-3).
    """

    mesh: Mesh
    tp: int = 1
    pp: int = 1
    cp: int = 1
    size: int = 1
    resident: bool = True
    recompute: bool = False
    zero: bool = False

    @property
    def dp(self) -> int:
        return self.mesh.count // (self.tp * self.pp * self.cp)

    @property
    def layout(self) -> Layout:
        return Layout(tp=self.tp, pp=self.pp, dp=self.dp, cp=self.cp)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Where its weights lie, but for copies: ranks, tp and pp, and whether all is split."""
        return (self.mesh.first, self.mesh.count, self.tp, self.pp)

    def __str__(self) -> str:
        parts = [f"ranks {self.mesh}", f"tp={self.tp}", f"pp={self.pp}", f"dp={self.dp}"]
        parts += [f"cp={self.cp}"] if self.cp > 1 else []
        return " ".join(parts)


@dataclass(frozen=True)
class Limits:
    """What ways are looked at. contexts: most cp. smallest: ranks of the smallest mesh; None: a 16th of the cluster.
    recompute, offload: whether these ways are among them."""

    contexts: int = 1
    smallest: int | None = None
    recompute: bool = True
    offload: bool = True

    def smallest_of(self, cluster: Cluster) -> int:
        return max(1, cluster.world // 16) if self.smallest is None else self.smallest


def ways(
    call: Call,
    model: ModelSizes,
    work: Workload,
    *,
    cluster: Cluster,
    meshes: Sequence[Mesh],
    widths: Sequence[int],
    limits: Limits,
) -> Iterator[Way]:
    """All ways that divide: heads over tp, layers over pp, samples over dp."""
    for mesh in meshes:
        for tp in (tp for tp in widths if cluster.devices % tp == 0 and mesh.count % tp == 0):
            for cp in (cp for cp in (1, 2, 4, 8) if cp <= limits.contexts and (cp == 1 or call.kind != "generate")):
                for pp in (pp for pp in range(1, model.layers + 1) if model.layers % pp == 0):
                    if mesh.count % (tp * pp * cp) == 0:
                        way = Way(mesh, tp, pp, cp)
                        if _divides(call, way, work):
                            yield from _variants(call, way, work, limits)


def _divides(call: Call, way: Way, work: Workload) -> bool:
    if call.kind == "generate":
        return way.dp <= work.samples
    return (work.mini_batch if call.kind == "train" else work.samples) % way.dp == 0


def _variants(call: Call, way: Way, work: Workload, limits: Limits) -> Iterator[Way]:
    for size in sizes(call, way, work):
        sized = replace(way, size=size)
        yield sized
        if call.kind == "train" and limits.recompute:
            yield replace(sized, recompute=True)
        if call.kind == "infer" and call.source is None and limits.offload:
            yield replace(sized, resident=False)


def sizes(call: Call, way: Way, work: Workload) -> tuple[int, ...]:
    """Micro-batches of one, two and four of the longest samples, or a half, a quarter ... of an engine's samples."""
    if call.kind == "generate":
        rows = -(-work.samples // way.dp)
        return tuple(sorted({max(1, -(-rows // part)) for part in (1, 2, 4, 8)}, reverse=True))
    return tuple(work.row * rows for rows in ((1, 2, 4) if call.kind == "train" else (1, 4)))
