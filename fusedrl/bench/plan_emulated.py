"""A plan's step acted out on as many CPU ranks: each goes through its own list and sleeps instead of computing.

    before a unit   all results of the phase before come to the unit's first rank, which tells the others; weights come
                    from the ranks that train them, or a sleep stands for the way from the CPU's memory
    the unit        training, inference: the pipeline executor, emulated stages, real orders and micro-batches
                    generation: blocks of tokens handed from stage to stage (plan_decoding)
    after it        the ranks that speak for a replica send its results to the first rank of each unit that reads them

Messages decide who waits for whom, and the clock what a step takes. Sleeps are `scale` seconds for each second of the
cost model. Tensor-parallel ranks begin a call together and then sleep side by side: what their collectives take is in
the times of their ops.
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.bench.emulated import Emulation, SleepingStage, sleep_until
from fusedrl.bench.plan_decoding import Block, TokenTimes, by_batch, engine_blocks
from fusedrl.bench.plan_passes import (
    load_seconds,
    micro_batches,
    mini_batches,
    program_of,
    shapes,
    times_of,
    update_seconds,
)
from fusedrl.bench.plan_post import Post
from fusedrl.bench.plan_scene import Part, Scene
from fusedrl.bench.plan_weights import Moved, moved, wait_seconds
from fusedrl.bench.realtime import going_first
from fusedrl.parallel.comm import all_gather_object
from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.program import Program
from fusedrl.pipeline.stage import PipelineModel
from fusedrl.plan.calls import CALLS
from schedules.problem import Model

MEET, WEIGHTS, RESULT, GO, TOKENS = 50, 100, 200, 300, 400  # tags; the unit's or call's number is added
Event = tuple[int, str, int, int]
"""(unit, what, start, end) in ns of time.perf_counter, which the ranks of a machine share."""


@dataclass(frozen=True)
class Acting:
    """scale: seconds slept for a second of the cost model. block: seconds that a block of tokens sleeps at least.
    payload: bytes of a pipeline message. timeout: seconds that a message may take. realtime: during a step the ranks go
    before all other processes, so that sleeps end when they are due on a busy machine too; they hardly compute."""

    scale: float = 1.0
    block: float = 0.02
    payload: int = 1024
    timeout: float = 120.0
    realtime: bool = False


@dataclass
class Stage:
    """A stage that sleeps for the pass that is set."""

    inner: SleepingStage | None = None

    def __call__(self, microbatch: MicroBatch, received: Tensor | None) -> Tensor:
        assert self.inner is not None
        return self.inner(microbatch, received)


@dataclass(frozen=True)
class Pass:
    """One program of a unit, and of each call this replica's times and samples."""

    program: Program
    models: dict[str, Model]


@dataclass
class Prepared:
    """All that a rank looks up during a step; made before the clock starts."""

    passes: dict[int, list[Pass]] = field(default_factory=dict)
    blocks: dict[int, list[Block]] = field(default_factory=dict)
    moves: dict[str, Moved] = field(default_factory=dict)
    masks: dict[str, Tensor] = field(default_factory=dict)  # samples of which this rank's replica has results


class EmulatedStep:
    """A plan on this rank. All ranks of the job make it together, run it together, and close it."""

    def __init__(self, scene: Scene, acting: Acting) -> None:
        assert dist.get_world_size() == scene.world, f"{scene.world} ranks are planned"
        self.scene, self.acting, self.rank = scene, acting, dist.get_rank()
        self.events: list[Event] = []
        self.ran: dict[str, int] = defaultdict(int)  # micro-batches, or samples of an engine
        self._post = Post()
        self._stages = {call: Stage() for call in scene.ways}
        self._scale = acting.scale
        self._groups = [dist.new_group(list(scene.ranks(unit))) for unit in range(len(scene.units))]
        self._executor = Executor([self._model(call) for call in self._piped()], timeout=acting.timeout)
        self._prepared = self._prepare()

    def run(self, *, scale: float) -> list[Event]:
        """One step; this rank's events, the step itself as unit -1."""
        self._scale = scale
        self.events, self.ran, began = [], defaultdict(int), time.perf_counter_ns()
        for call, found in self._prepared.moves.items():
            for target in found.targets(self.rank):
                self._post.send(torch.zeros(1), target, tag=WEIGHTS + _number(call))
        for unit in range(len(self.scene.units)):
            if self.rank in self.scene.ranks(unit):
                self._unit(unit)
        self._post.finish()
        self.events.append((-1, "step", began, time.perf_counter_ns()))
        return self.events

    def close(self) -> None:
        self._executor.close()
        for group in self._groups:
            if group != dist.GroupMember.NON_GROUP_MEMBER:
                dist.destroy_process_group(group)

    def _unit(self, unit: int) -> None:
        with self._timed(unit, "inputs"):
            self._inputs(unit)
        with self._timed(unit, "weights"):
            for call in self.scene.units[unit]:
                self._weights(call)
                self._meet(call)
        with self._timed(unit, "work"):
            if unit in self._prepared.blocks:
                self._generate(unit)
            else:
                self._passes(unit)
        self._results(unit)

    @contextmanager
    def _timed(self, unit: int, what: str) -> Iterator[None]:
        began = time.perf_counter_ns()
        yield
        self.events.append((unit, what, began, time.perf_counter_ns()))

    def _inputs(self, unit: int) -> None:
        """The unit's first rank takes the results of all samples, then lets the others begin."""
        first, *others = self.scene.ranks(unit)
        if self.rank != first:
            if self.scene.needs[unit]:
                self._post.receive(first, tag=GO + unit)
            return
        for call in (call for need in self.scene.needs[unit] for call in self.scene.units[need]):
            self._complete(call, unit)
        for rank in others if self.scene.needs[unit] else ():
            self._post.send(torch.zeros(1), rank, tag=GO + unit)

    def _complete(self, call: str, unit: int) -> None:
        samples = self.scene.pricer.work.samples
        tag = RESULT + 10 * unit + _number(call)
        found = [self._post.receive(rank, tag=tag, numbers=samples) for rank in self.scene.speakers(call)]
        counts = torch.stack(found).sum(0)
        if not torch.equal(counts, torch.ones(samples)):
            raise AssertionError(f"{call}: {int((counts != 1).sum())} of {samples} samples came not once")

    def _results(self, unit: int) -> None:
        readers = [other for other, needs in enumerate(self.scene.needs) if unit in needs]
        for call in self.scene.units[unit]:
            if self.rank in self.scene.speakers(call):
                for reader in readers:
                    tag = RESULT + 10 * reader + _number(call)
                    self._post.send(self._prepared.masks[call].clone(), self.scene.ranks(reader)[0], tag=tag)

    def _weights(self, call: str) -> None:
        found = self._prepared.moves.get(call)
        if found is not None:
            for sender in found.senders(self.rank):
                self._post.receive(sender, tag=WEIGHTS + _number(call))
            self._sleep(wait_seconds(self.scene, found, self.rank))
        self._sleep(load_seconds(self.scene, call, self._part(call)))

    def _meet(self, call: str) -> None:
        """With the tensor-parallel ranks of this rank's part: none begins while another is at an earlier call."""
        part, tag = self._part(call), MEET + _number(call)
        side = [self.scene.rank(call, replace(part, tp_i=tp_i)) for tp_i in range(self.scene.ways[call].tp)]
        others = [rank for rank in side if rank != self.rank]
        for rank in others:
            self._post.send(torch.zeros(1), rank, tag=tag)
        for rank in others:
            self._post.receive(rank, tag=tag)

    def _generate(self, unit: int) -> None:
        """Blocks in turn; the last stage gives each batch back to the first. It also knows which samples are whole."""
        (call,) = self.scene.units[unit]
        part, last = self._part(call), self.scene.ways[call].pp - 1
        ring = [self.scene.rank(call, Part(part.tp_i, part.dp_i, stage)) for stage in range(last + 1)]
        mask, found = torch.zeros(self.scene.pricer.work.samples), self._prepared.blocks[unit]
        left = _blocks_of_batches(found)
        for block, first in by_batch(found):
            left[block.batch] -= 1
            if last and not (first and part.stage == 0):
                self._post.receive(ring[part.stage - 1], tag=TOKENS + block.batch)
            self._sleep(block.seconds[part.stage])
            if last and (part.stage < last or left[block.batch]):
                self._post.send(torch.zeros(1), ring[(part.stage + 1) % len(ring)], tag=TOKENS + block.batch)
            mask[list(block.ended)] += 1
        self._prepared.masks[call] = mask
        self.ran[call] += int(mask.sum())

    def _passes(self, unit: int) -> None:
        calls = self.scene.units[unit]
        emulation = Emulation(unit_ms=self._scale, payload=self.acting.payload)
        for one in self._prepared.passes[unit]:
            for call in calls:
                stage = SleepingStage(one.models[call], self._part(call).stage, emulation)
                self._stages[call].inner = stage
            work = {call: _work(one.models[call]) for call in calls}
            self._executor.run(one.program, work)
            for call in calls:
                self.ran[call] += one.models[call].microbatches
            if CALLS[calls[0]].kind == "train":
                dist.all_reduce(torch.zeros(1), group=self._groups[unit])  # the gradients' norm
                self._sleep(sum(update_seconds(self.scene, call, self._part(call)) for call in calls))

    def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            sleep_until(time.perf_counter_ns() + int(seconds * self._scale * 1e9))

    def _part(self, call: str) -> Part:
        found = self.scene.part(call, self.rank)
        assert found is not None
        return found

    def _piped(self) -> list[str]:
        return [call for call in self.scene.ways if CALLS[call].kind != "generate"]

    def _model(self, call: str) -> PipelineModel:
        scene, part = self.scene, self.scene.part(call, self.rank)
        layout, first = scene.ways[call].layout, scene.ways[call].mesh.first
        columns = tuple(
            tuple(first + layout.rank(tp_i=tp_i, dp_i=dp_i, pp_i=pp_i) for pp_i in range(layout.pp))
            for dp_i in range(layout.dp)
            for tp_i in range(layout.tp)
        )
        shape = (max(1, self.acting.payload // 4),)
        return PipelineModel(
            name=call,
            placement=scene.placement(call),
            columns=columns,
            stages={} if part is None else {part.stage: self._stages[call]},
            message_shape=lambda microbatch: shape,
            tp=layout.tp,
        )

    def _prepare(self) -> Prepared:
        made, scene = Prepared(), self.scene
        made.moves = {call: found for call in scene.ways if (found := moved(scene, call)).bytes_ST}
        for unit, calls in enumerate(scene.units):
            if self.rank not in scene.ranks(unit):
                continue
            if CALLS[calls[0]].kind == "generate":
                made.blocks[unit] = self._blocks(calls[0])
                continue
            made.passes[unit] = [self._pass(unit, samples) for samples in mini_batches(scene, calls[0])]
            for call in calls:
                own = micro_batches(scene, call, range(scene.pricer.work.samples))[self._part(call).dp_i]
                made.masks[call] = torch.zeros(scene.pricer.work.samples)
                made.masks[call][[sample for rows in own for sample in rows]] = 1
        return made

    def _blocks(self, call: str) -> list[Block]:
        scene, work = self.scene, self.scene.pricer.work
        times = TokenTimes(scene.pricer.costs, scene.model(call), scene.ways[call])
        least = self.acting.block / self.acting.scale
        lengths = [int(length) for length in work.response_N]
        return engine_blocks(times, lengths, engine=self._part(call).dp_i, prompt=work.prompt, least=least)

    def _pass(self, unit: int, samples: range) -> Pass:
        scene = self.scene
        models = {}
        for call in scene.units[unit]:
            own, times = shapes(scene, call, samples)[self._part(call).dp_i], times_of(scene, call)
            stages, trains = range(scene.ways[call].pp), CALLS[call].kind == "train"
            models[call] = Model(
                call,
                scene.placement(call),
                len(own),
                forward=[[times.forward(s, rows=tokens, length=length) for tokens, length in own] for s in stages],
                backward=[[times.backward(s, rows=tokens, length=length) for tokens, length in own] for s in stages]
                if trains
                else None,
            )
        return Pass(program_of(scene, unit, samples), models)


def act(scene: Scene, acting: Acting, repeats: int) -> list[list[dict[str, Any]]]:
    """Of each repeat, of each rank: {events, ran}. A collective of all ranks; the same on all."""
    step, found = EmulatedStep(scene, acting), []
    step.run(scale=0.0)  # a first step takes longer: it warms connections and code up, without a sleep
    for _ in range(repeats):
        with going_first(asked=acting.realtime):
            dist.barrier()
            events = step.run(scale=acting.scale)
        found.append(all_gather_object({"events": [list(each) for each in events], "ran": dict(step.ran)}))
    step.close()
    return found


def _work(model: Model) -> Work:
    microbatches = [MicroBatch(torch.tensor([[m]])) for m in range(model.microbatches)]
    return Work(microbatches, loss=(lambda output, _: (output, {})) if model.trains else None)


def _blocks_of_batches(found: list[Block]) -> dict[int, int]:
    counts: dict[int, int] = defaultdict(int)
    for block in found:
        counts[block.batch] += 1
    return counts


def _number(call: str) -> int:
    return list(CALLS).index(call)
