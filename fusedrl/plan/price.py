"""Seconds and bytes of one call in one way, in parts: how the questions to `Costs` make the time of a call.

    training    updates x ( sum of stages (F + B) + (m - 1) x slowest stage (F + B)          1F1B, m micro-batches
                            + 2 (m + pp - 2) messages + gradients summed, parameters gathered + optimizer )
    inference   sum of stages F + (m - 1) x slowest stage F + (m + pp - 2) messages  (+ weights from the CPU's memory)
    generation  prefill, then steps of all rows, fewer as responses end (decode.py)

`bubble` is what pipelining costs over even work on all stages.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from fusedrl.models.options import Recompute, StageOptions
from fusedrl.plan import memory
from fusedrl.plan.calls import Call, Way
from fusedrl.plan.costs import Costs, Passes, message_bytes
from fusedrl.plan.decode import Generated, generate
from fusedrl.plan.memory import Memory, Stage, stages_of
from fusedrl.plan.meshes import Mesh
from fusedrl.plan.sizes import ModelSizes
from fusedrl.plan.workload import Workload

FULL = StageOptions(recompute=Recompute("full", "uniform", 1))
GRADIENT = 4  # bytes of a gradient's number on its way


@dataclass(frozen=True)
class Price:
    """seconds by part; bytes of a rank held in all phases, and while the call runs (held ones included)."""

    parts: Mapping[str, float]
    held: Memory = field(default_factory=Memory)
    running: Memory = field(default_factory=Memory)
    passes: tuple[tuple[float, float], ...] = ()  # of a micro-batch's (F, B) by stage, in training
    microbatches: int = 0
    peak: Generated | None = None

    @property
    def seconds(self) -> float:
        return sum(self.parts.values())

    @property
    def most(self) -> float:
        """Bytes of a rank at worst."""
        return max(self.held.total, self.running.total)

    @property
    def burst(self) -> float:
        return max(0.0, self.running.total - self.held.total)


@dataclass(frozen=True, eq=False)
class Pricer:
    """Prices of calls on one workload. own_inference: actor and critic may infer in layouts of their own."""

    costs: Costs
    models: Mapping[str, ModelSizes]
    work: Workload
    distributed_optimizer: bool = True
    own_inference: bool = True

    def price(self, call: Call, way: Way) -> Price:
        """Remembered but for where the ranks begin: places of a size are alike."""
        return _priced(self, call, self.moved(way))

    @staticmethod
    def moved(way: Way) -> Way:
        """The same on the first ranks."""
        return replace(way, mesh=Mesh(0, way.mesh.count))

    def _across(self, way: Way) -> bool:
        """Whether a stage's next lies on another node, somewhere."""
        return way.mesh.count > self.costs.cluster.devices and way.pp > 1

    def _message(self, model: ModelSizes, way: Way, tokens: float) -> float:
        if way.pp == 1:
            return 0.0
        nbytes = message_bytes(model, tokens=tokens, bytes_each=memory.BYTES[self.costs.dtype], tp=way.tp, cp=way.cp)
        return self.costs.message(nbytes, across_nodes=self._across(way))

    def passes(self, model: ModelSizes, way: Way, *, tokens: float) -> list[Passes]:
        """Of one micro-batch, by stage."""
        c, length = self.costs, min(self.work.length, tokens)
        layer = c.layer(model, tp=way.tp, tokens=tokens, length=length, cp=way.cp)
        layer = layer.recomputed() if way.recompute else layer
        found = []
        for stage in stages_of(model, way.layout):
            total = layer * len(stage.layers)
            total += c.embedding(model, tp=way.tp, tokens=tokens, cp=way.cp) if stage.first else Passes()
            total += c.head(model, tp=way.tp, tokens=tokens, cp=way.cp) if stage.last else Passes()
            found.append(total)
        return found

    def cut(self, way: Way, *, samples: int) -> tuple[int, float]:
        """(micro-batches, tokens of each) of a replica's share; budgets are filled but for half a row."""
        share, rows = self.work.share(way.dp, of=samples), samples // way.dp
        room = max(way.size - self.work.mean_row / 2, self.work.mean_row) if share > way.size else way.size
        count = max(1, min(rows, math.ceil(share / room)))
        return count, share / count

    def train(self, call: Call, way: Way) -> Price:
        model, work = self.models[call.model], self.work
        count, tokens = self.cut(way, samples=work.mini_batch)
        each = self.passes(model, way, tokens=tokens)
        times = [stage.forward + stage.backward for stage in each]
        message = self._message(model, way, tokens)
        ideal = count * sum(times) / way.pp
        total = sum(times) + (count - 1) * max(times)
        parts = {
            "compute": ideal,
            "bubble": total - ideal,
            "messages": 2 * (count + way.pp - 2) * message,
            "gradients": self._sums(model, way, count),
            "optimizer": self.costs.optimizer_step(self._parameters(model, way) / self._shards(way)),
        }
        held, running = self._training_memory(model, way, count, tokens)
        passes = tuple((stage.forward, stage.backward) for stage in each)
        return Price({key: work.updates * value for key, value in parts.items()}, held, running, passes, count)

    def _shards(self, way: Way) -> int:
        return way.dp * way.cp if self.distributed_optimizer or way.zero else 1

    def _parameters(self, model: ModelSizes, way: Way) -> int:
        return max(
            model.stage_parameters(s.layers, first=s.first, last=s.last, tp=way.tp)
            for s in stages_of(model, way.layout)
        )

    def _sums(self, model: ModelSizes, way: Way, count: int) -> float:
        """Gradients over replicas and parameters back, once an update; under ZeRO-3 gathered twice a micro-batch."""
        ranks = way.dp * way.cp
        if ranks == 1:
            return 0.0
        nodes, parameters = self.costs.cluster.nodes_of(ranks, stride=way.tp), self._parameters(model, way)
        weights = parameters * memory.BYTES[self.costs.dtype]
        if way.zero:
            gather = self.costs.collective("all_gather", weights, ranks=ranks, nodes=nodes)
            return count * (2 * gather + self.costs.collective("reduce_scatter", weights, ranks=ranks, nodes=nodes))
        scatter = self.costs.collective("reduce_scatter", GRADIENT * parameters, ranks=ranks, nodes=nodes)
        return scatter + self.costs.collective("all_gather", weights, ranks=ranks, nodes=nodes)

    def _training_memory(self, model: ModelSizes, way: Way, count: int, tokens: float) -> tuple[Memory, Memory]:
        held, running = Memory(), Memory()
        options = FULL if way.recompute else StageOptions()
        most = min(float(way.size), tokens * 1.25) if count > 1 else tokens
        for s, stage in enumerate(stages_of(model, way.layout)):
            in_flight = memory.in_flight_1f1b(s, stages=way.pp, microbatches=count)
            state = memory.training_state(
                model, stage, way.layout, dtype=self.costs.dtype, distributed_optimizer=self.distributed_optimizer
            )
            whole = memory.training(
                model,
                stage,
                way.layout,
                tokens=most,
                length=self.work.length,
                in_flight=in_flight,
                dtype=self.costs.dtype,
                distributed_optimizer=self.distributed_optimizer,
                options=options,
            )
            if way.zero:
                state, whole = _split(state, way.dp), _split(whole, way.dp)
            held, running = held.most(state), running.most(whole)
        return held, running

    def infer(self, call: Call, way: Way) -> Price:
        model, work = self.models[call.model], self.work
        count, tokens = self.cut(way, samples=work.samples)
        times = [stage.forward for stage in self.passes(model, way, tokens=tokens)]
        ideal = count * sum(times) / way.pp
        weights = Memory({"weights": self._parameters(model, way) * memory.BYTES[self.costs.dtype]})
        parts = {
            "compute": ideal,
            "bubble": sum(times) + (count - 1) * max(times) - ideal,
            "messages": (count + way.pp - 2) * self._message(model, way, tokens),
            "load": 0.0 if way.resident or call.source else self.costs.host_copy(weights.total),
            "gather": count * self._gather(weights.total, way) if way.zero else 0.0,
        }
        stages = stages_of(model, way.layout)
        running = Memory()
        for stage in stages:
            running = running.most(
                memory.inference(model, stage, way.layout, tokens=way.size, length=work.length, dtype=self.costs.dtype)
            )
        if way.zero:
            weights, running = _split(weights, way.dp), _split(running, way.dp)
        if call.source:  # its weights are the trained ones, or come by a move
            return Price(parts, Memory(), _without(running, "weights"))
        return Price(parts, weights if way.resident else Memory(), running)

    def _gather(self, weights: float, way: Way) -> float:
        ranks = way.dp * way.cp
        nodes = self.costs.cluster.nodes_of(ranks, stride=way.tp)
        return self.costs.collective("all_gather", weights, ranks=ranks, nodes=nodes)

    def generate(self, call: Call, way: Way) -> Price:
        model, work = self.models[call.model], self.work
        found = generate(self.costs, model, way, work)
        running = Memory()
        for stage in stages_of(model, way.layout):
            running = running.most(self._cache(model, stage, way, found))
        return Price({"prefill": found.prefill, "decode": found.decode}, Memory(), running, peak=found)

    def _cache(self, model: ModelSizes, stage: Stage, way: Way, found: Generated) -> Memory:
        """Of the most tokens that are in the cache at once; weights are the trained ones, or come by a move."""
        length = found.peak_tokens / way.size
        held = memory.generation(model, stage, way.layout, rows=way.size, length=length, dtype=self.costs.dtype)
        return _without(held, "weights")


@lru_cache(maxsize=200_000)
def _priced(pricer: Pricer, call: Call, way: Way) -> Price:
    price = {"train": pricer.train, "infer": pricer.infer, "generate": pricer.generate}[call.kind]
    return price(call, way)


def _without(held: Memory, kind: str) -> Memory:
    return Memory({key: value for key, value in held.kinds.items() if key != kind})


def _split(held: Memory, ranks: int) -> Memory:
    """ZeRO-3: weights and gradients are split too; the optimizer's state is already."""
    parted = {key: value / ranks if key in ("weights", "gradients") else value for key, value in held.kinds.items()}
    return Memory(parted)
