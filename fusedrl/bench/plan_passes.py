"""What training and inference take on a rank, op by op: seconds that emulated stages sleep.

`Costs` is asked for the micro-batches that the trainer's own packing makes of the step's samples, each with its tokens
and lengths. Nothing is taken from fusedrl.plan.price: its sums, with micro-batches all alike, are what is tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fusedrl.bench.plan_scene import Part, Scene
from fusedrl.pipeline.plan import Planned, plan_pass, without_training
from fusedrl.pipeline.program import Program
from fusedrl.plan.calls import CALLS, Way
from fusedrl.plan.costs import Costs, Passes, message_bytes
from fusedrl.plan.memory import BYTES, Stage, stages_of
from fusedrl.plan.sizes import ModelSizes
from fusedrl.rl.token_budget import pack

GRADIENT = 4  # bytes of a gradient's number
Lengths = Sequence[int]


@dataclass(frozen=True)
class StageTimes:
    """A plan's Cost of one model: milliseconds. `rows` are tokens, `length` their mean length weighted by tokens."""

    costs: Costs
    model: ModelSizes
    way: Way

    def forward(self, stage: int, *, rows: float, length: float) -> float:
        """With the message that the stage receives, and all weights of its layers where they are split."""
        gathers = _gather(self, stage) if self.way.zero else 0.0
        return 1e3 * (self._passes(stage, rows, length).forward + gathers + self._message(rows, received=stage > 0))

    def backward(self, stage: int, *, rows: float, length: float) -> float:
        split = _gather(self, stage) + _scatter(self, stage) if self.way.zero else 0.0
        received = stage < self.way.pp - 1
        return 1e3 * (self._passes(stage, rows, length).backward + split + self._message(rows, received=received))

    def weight(self, stage: int, *, rows: float, length: float) -> float:
        return 1e3 * self._passes(stage, rows, length).weight_gradient

    def activation(self, stage: int, *, rows: float, length: float) -> float:
        return 1.0

    def _passes(self, stage: int, tokens: float, length: float) -> Passes:
        own = self.stage(stage)
        layer = self.costs.layer(self.model, tp=self.way.tp, tokens=tokens, length=length, cp=self.way.cp)
        total = (layer.recomputed() if self.way.recompute else layer) * len(own.layers)
        if own.first:
            total += self.costs.embedding(self.model, tp=self.way.tp, tokens=tokens, cp=self.way.cp)
        if own.last:
            total += self.costs.head(self.model, tp=self.way.tp, tokens=tokens, cp=self.way.cp)
        return total

    def _message(self, tokens: float, *, received: bool) -> float:
        if not received:
            return 0.0
        each = BYTES[self.costs.dtype]
        nbytes = message_bytes(self.model, tokens=tokens, bytes_each=each, tp=self.way.tp, cp=self.way.cp)
        return self.costs.message(nbytes, across_nodes=self.way.mesh.count > self.costs.cluster.devices)

    def stage(self, stage: int) -> Stage:
        return stages_of(self.model, self.way.layout)[stage]

    def parameters(self, stage: int) -> int:
        """Of a stage, on one of its tensor-parallel ranks."""
        own = self.stage(stage)
        return self.model.stage_parameters(own.layers, first=own.first, last=own.last, tp=self.way.tp)

    def group(self) -> tuple[int, int]:
        """(ranks, nodes) over which a parameter's gradients are summed."""
        ranks = self.way.dp * self.way.cp
        return ranks, self.costs.cluster.nodes_of(ranks, stride=self.way.tp)


def times_of(scene: Scene, call: str) -> StageTimes:
    return StageTimes(scene.pricer.costs, scene.model(call), scene.ways[call])


def update_seconds(scene: Scene, call: str, part: Part) -> float:
    """What follows a mini-batch's passes on a rank: gradients summed, Adam's step, parameters back."""
    times = times_of(scene, call)
    parameters, (ranks, nodes), costs = times.parameters(part.stage), times.group(), scene.pricer.costs
    split = scene.pricer.distributed_optimizer or times.way.zero
    seconds = costs.optimizer_step(parameters / (ranks if split else 1))
    if ranks == 1 or times.way.zero:  # split weights: their gradients are summed in each backward
        return seconds
    nbytes = parameters * BYTES[costs.dtype]
    scatter = costs.collective("reduce_scatter", GRADIENT * parameters, ranks=ranks, nodes=nodes)
    return seconds + scatter + costs.collective("all_gather", nbytes, ranks=ranks, nodes=nodes)


def load_seconds(scene: Scene, call: str, part: Part) -> float:
    """Frozen weights from the CPU's memory, for the call."""
    if scene.ways[call].resident or CALLS[call].source is not None:
        return 0.0
    nbytes = times_of(scene, call).parameters(part.stage) * BYTES[scene.pricer.costs.dtype]
    return scene.pricer.costs.host_copy(nbytes)


def mini_batches(scene: Scene, call: str) -> list[range]:
    """Samples of each pass: those of every update, in turn, or all where nothing is trained."""
    work = scene.pricer.work
    if CALLS[call].kind != "train":
        return [range(work.samples)]
    each = work.mini_batch
    return [range(u * each, (u + 1) * each) for u in range(work.mini_batches)] * work.epochs


def micro_batches(scene: Scene, call: str, samples: range) -> list[list[list[int]]]:
    """By replica, the samples of each micro-batch: the trainer's packing under the way's budget of tokens."""
    lengths = _lengths(scene, samples)
    packed = pack(lengths, tokens=scene.ways[call].size, replicas=scene.ways[call].dp, key=f"{call}: tokens")
    return [[[samples[i] for i in rows] for rows in replica] for replica in packed]


def shape_of(lengths: Lengths) -> tuple[float, float]:
    """(tokens, mean length weighted by tokens) of a micro-batch."""
    tokens = sum(lengths)
    return float(tokens), sum(length * length for length in lengths) / tokens


def shapes(scene: Scene, call: str, samples: range) -> list[list[tuple[float, float]]]:
    """By replica, those of its micro-batches."""
    work = scene.pricer.work
    return [
        [shape_of([int(work.response_N[i]) + work.prompt for i in rows]) for rows in replica]
        for replica in micro_batches(scene, call, samples)
    ]


def program_of(scene: Scene, unit: int, samples: range) -> Program:
    """The order of a pass as the trainer plans it: from the largest micro-batches over the replicas."""
    planned = []
    for call in scene.units[unit]:
        way, found = scene.ways[call], shapes(scene, call, samples)
        planned.append(
            Planned(
                call,
                tuple(max(each) for each in zip(*found, strict=True)),
                pp=way.pp,
                tp=way.tp,
                dp=way.dp,
                cp=way.cp,
                reverse=scene.placement(call) != tuple(range(way.pp)),
                trains=CALLS[call].kind == "train",
                cost=times_of(scene, call),
                ranks=tuple(way.mesh.ranks),
            )
        )
    method = "fused" if len(planned) > 1 else "serial"
    return plan_pass(planned, method=method if planned[0].trains else without_training(method))


def _lengths(scene: Scene, samples: range) -> list[int]:
    work = scene.pricer.work
    return [int(work.response_N[i]) + work.prompt for i in samples]


def _gather(times: StageTimes, stage: int) -> float:
    ranks, nodes = times.group()
    nbytes = times.parameters(stage) * BYTES[times.costs.dtype]
    return times.costs.collective("all_gather", nbytes, ranks=ranks, nodes=nodes) if ranks > 1 else 0.0


def _scatter(times: StageTimes, stage: int) -> float:
    ranks, nodes = times.group()
    nbytes = times.parameters(stage) * BYTES[times.costs.dtype]
    return times.costs.collective("reduce_scatter", nbytes, ranks=ranks, nodes=nodes) if ranks > 1 else 0.0
