"""The coordinator's decisions, as a state machine: messages in, commands out. No sockets, no clock, no threads.

    all said Hello -> each generates its share -> samples finish -> reward function, units of inference -> all ready
                                            \\-> r_t are left: the tail moves to m instances, once
                                                 (again where all of it had finished before it could move)

Work is pulled: an instance with nothing left says Want, and gets a chunk of ready units, now or as soon as there are
some. Free rows get queued samples as samples finish. With `streaming` off, rewards and units wait until the last sample
is finished, and nothing moves: the stage-by-stage baseline, by the same messages. What a unit reads is fixed
(units.py), so the policy changes when and where work happens, never what is computed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusedrl.stream.messages import (
    Abort,
    Extract,
    Extracted,
    Failed,
    Finished,
    Generate,
    Hello,
    Infer,
    SampleState,
    Stop,
    ToCoordinator,
    ToInstance,
    UnitsDone,
    Values,
    Want,
)
from fusedrl.stream.migration import plan_moves
from fusedrl.stream.sample import Ledger, Stage
from fusedrl.stream.units import ReadyUnits, compose

LARGEST_SHARE = 2  # a chunk is at most 1 / (2 x instances) of what is ready, so that all end at about the same time


@dataclass(frozen=True, kw_only=True)
class Policy:
    """r_t: unfinished samples at which the tail moves; 0: never. m: instances that it moves to."""

    streaming: bool = True
    r_t: int = 0
    m: int = 1


@dataclass(frozen=True, kw_only=True)
class Work:
    """A step's work. shares: the samples that each instance is to generate, in order. prompt_tokens: by sample.

    scored: whether a reward function answers for each sample. chunk_tokens: the most tokens handed out together.
    destination_rows: what an instance takes in a migration at most.
    """

    shares: Sequence[Sequence[int]]
    prompt_tokens: Mapping[int, int]
    tasks: Sequence[str] = ()
    unit_size: int = 1
    scored: bool = True
    chunk_tokens: int = 4096
    destination_rows: int = 1 << 30


@dataclass(frozen=True)
class Send:
    """A message for an instance."""

    instance: int
    message: ToInstance


@dataclass(frozen=True)
class Score:
    """The reward function is to score this finished sample."""

    sample: SampleState


Command = Send | Score


class ProtocolError(RuntimeError):
    """An instance said what it cannot say now."""


class Control:
    """Feed it with `handle` and `scored`; it answers with commands. `done` or `failure` ends the step."""

    def __init__(self, work: Work, *, policy: Policy) -> None:
        self.work, self.policy = work, policy
        ids = [sample_id for share in work.shares for sample_id in share]
        self.ledger = Ledger(ids)
        self.groups = compose(ids, size=work.unit_size)
        self.finished: dict[int, SampleState] = {}
        self.scores: dict[int, float] = {}
        self.values: dict[tuple[str, int], tuple[Values, ...]] = {}  # by task and sample
        self.moved: Counter[str] = Counter(samples=0, bytes=0, prefilled=0)
        self.failure = ""
        self._instances = range(len(work.shares))
        self._rows: dict[int, int] = {}
        self._queue: list[int] = []
        self._live: dict[int, dict[int, None]] = {each: {} for each in self._instances}  # in the order given
        self._ready = ReadyUnits(self.groups, tasks=work.tasks)
        self._left = {sample_id: len(work.tasks) for sample_id in ids}  # units that still read it
        self._handed: dict[int, tuple[tuple[str, int], ...]] = dict.fromkeys(self._instances, ())
        self._last_task: dict[int, str] = {}
        self._wanting: dict[int, None] = {}
        self._incoming: Counter[int] = Counter()
        self._told: Counter[int] = Counter()  # Generate and Extract messages sent
        self._migrated = False
        self._held: list[SampleState] = []  # finished, until the stage ends, where streaming is off

    @property
    def joined(self) -> bool:
        return len(self._rows) == len(self._instances)

    @property
    def missing(self) -> list[int]:
        """Instances that have not said Hello."""
        return [each for each in self._instances if each not in self._rows]

    @property
    def done(self) -> bool:
        return self.joined and self.ledger.all_ready

    @property
    def ended(self) -> bool:
        return self.done or bool(self.failure)

    def handle(self, message: ToCoordinator, *, instance: int) -> list[Command]:
        """Take a message of an instance. Raises ProtocolError where it does not fit."""
        if self.ended:
            return []
        if not isinstance(message, Hello | Want | Failed) and not self.joined:
            raise ProtocolError(f"instance {instance} sent {type(message).__name__} before all had joined")
        match message:
            case Hello():
                commands = self._hello(instance, message.rows)
            case Finished():
                commands = self._finish(instance, message.samples)
            case Extracted():
                commands = self._extracted(instance, message)
            case Want():
                commands = self._want(instance, message)
            case UnitsDone():
                commands = self._units_done(instance, message)
            case Failed():
                return self.fail(f"instance {instance} failed: {message.reason}")
            case _:
                raise ProtocolError(f"instance {instance} sent {type(message).__name__}")
        return commands + self._stop_when_done()

    def scored(self, sample_id: int, score: float) -> list[Command]:
        """The reward function's answer."""
        if self.ended:
            return []
        self.scores[sample_id] = score
        self.ledger.move(sample_id, to=Stage.SCORED)
        self._settle(sample_id)
        return self._stop_when_done()

    def fail(self, reason: str) -> list[Command]:
        """End the step: every instance is told why. The first reason counts."""
        if self.ended:
            return []
        self.failure = reason
        return [Send(each, Abort(reason)) for each in self._instances]

    def _stop_when_done(self) -> list[Command]:
        return [Send(each, Stop()) for each in self._instances] if self.done else []

    def _hello(self, instance: int, rows: int) -> list[Command]:
        if instance in self._rows:
            raise ProtocolError(f"instance {instance} said Hello twice")
        if rows < 1:
            raise ProtocolError(f"instance {instance} has {rows} rows: it needs at least 1")
        self._rows[instance] = rows
        if not self.joined:
            return []
        for each in self._instances:
            self._queue += self.work.shares[each][self._rows[each] :]
        return [self._generate(each, self.work.shares[each][: self._rows[each]]) for each in self._instances]

    def _generate(self, instance: int, sample_ids: Sequence[int]) -> Command:
        for sample_id in sample_ids:
            self.ledger.move(sample_id, to=Stage.GENERATING)
            self._live[instance][sample_id] = None
        return self._tell(instance, Generate(tuple(SampleState(each, b"", b"") for each in sample_ids)))

    def _tell(self, instance: int, message: Generate | Extract) -> Command:
        self._told[instance] += 1
        self._wanting.pop(instance, None)
        return Send(instance, message)

    def _finish(self, instance: int, samples: Sequence[SampleState]) -> list[Command]:
        for state in samples:
            self._check_holds(instance, state.sample_id)
            if not state.reason:
                raise ProtocolError(f"instance {instance} finished sample {state.sample_id} without a reason")
            self.ledger.move(state.sample_id, to=Stage.FINISHED)
            del self._live[instance][state.sample_id]
            self.finished[state.sample_id] = state
        commands = self._seat(instance) + self._release(samples)
        return commands + self._migrate() + self._serve()

    def _check_holds(self, instance: int, sample_id: int) -> None:
        if sample_id not in self._live[instance]:
            raise ProtocolError(f"instance {instance} spoke of sample {sample_id}, which it does not hold")

    def _seat(self, instance: int) -> list[Command]:
        """Queued samples for the rows that are free now."""
        free = self._rows[instance] - len(self._live[instance])
        taken, self._queue = self._queue[:free], self._queue[free:]
        return [self._generate(instance, taken)] if taken else []

    def _release(self, samples: Sequence[SampleState]) -> list[Command]:
        """Finished samples go on to the reward function and the units, at once or when all are finished."""
        if not self.policy.streaming:
            self._held += samples
            if self.ledger.unfinished:
                return []
            samples, self._held = self._held, []
        commands: list[Command] = []
        for state in samples:
            self._ready.finished(state.sample_id, tokens=self.work.prompt_tokens[state.sample_id] + state.length)
            if self.work.scored:
                commands.append(Score(state))
            else:
                self.ledger.move(state.sample_id, to=Stage.SCORED)
                self._settle(state.sample_id)
        return commands

    def _migrate(self) -> list[Command]:
        if self._migrated or not self.policy.streaming or self.ledger.unfinished > self.policy.r_t:
            return []
        moves = plan_moves(
            {each: list(live) for each, live in self._live.items()},
            keep=self.policy.m,
            rows=min(self.work.destination_rows, *self._rows.values()),
        )
        self._migrated = bool(moves)  # none: all must stay, as yet
        commands = []
        for move in moves:
            for sample_id in move.sample_ids:
                self.ledger.move(sample_id, to=Stage.MIGRATING)
            self._incoming[move.destination] += 1
            commands.append(self._tell(move.source, Extract(move.destination, move.sample_ids)))
        return commands

    def _extracted(self, source: int, message: Extracted) -> list[Command]:
        """Samples are out of their source; those that it finished first are not among them."""
        if not self._incoming[message.destination]:
            raise ProtocolError(f"instance {source} extracted samples for {message.destination}, which expects none")
        for state in message.samples:
            self._check_holds(source, state.sample_id)
            del self._live[source][state.sample_id]
            self._live[message.destination][state.sample_id] = None
            self.ledger.move(state.sample_id, to=Stage.GENERATING)
        self.moved["samples"] += len(message.samples)
        self.moved["bytes"] += message.moved_bytes
        self.moved["prefilled"] += sum(not state.cached for state in message.samples)
        self._incoming[message.destination] -= 1
        if not self.moved["samples"] and not self._incoming.total():
            self._migrated = False  # all had finished first: what is left then may move
            return self._migrate() + self._serve()
        if not message.samples:
            return self._serve()
        return [self._tell(message.destination, Generate(message.samples, source)), *self._serve()]

    def _want(self, instance: int, message: Want) -> list[Command]:
        if message.seen == self._told[instance] and not self._handed[instance]:
            self._wanting[instance] = None
        return self._serve()

    def _serve(self) -> list[Command]:
        """Chunks for the instances that want work, first come first served, as long as units are ready."""
        commands: list[Command] = []
        for instance in [each for each in self._wanting if not self._incoming[each]]:
            limit = self._ready.tokens // (LARGEST_SHARE * len(self._instances))
            tokens = min(self.work.chunk_tokens, limit)
            chunk = self._ready.take(last_task=self._last_task.get(instance, ""), tokens=tokens)
            if chunk is None:
                break
            del self._wanting[instance]
            self._last_task[instance] = chunk.task
            self._handed[instance] = tuple((chunk.task, index) for index in chunk.groups)
            samples = tuple(self.finished[each] for index in chunk.groups for each in self.groups[index])
            commands.append(Send(instance, Infer(chunk.units, samples)))
        return commands

    def _units_done(self, instance: int, message: UnitsDone) -> list[Command]:
        units = tuple((unit.task, unit.index) for unit in message.units)
        if not units or units != self._handed[instance]:
            raise ProtocolError(f"instance {instance} answered {len(units)} units that it was not given")
        self._handed[instance] = ()
        task, members = units[0][0], {each for _, index in units for each in self.groups[index]}
        found: dict[int, list[Values]] = {each: [] for each in members}
        for values in message.values:
            if values.sample_id not in members:
                raise ProtocolError(f"instance {instance} sent {task} of sample {values.sample_id} unasked")
            found[values.sample_id].append(values)
        for sample_id, of_sample in found.items():
            self.values[task, sample_id] = tuple(of_sample)
            self._left[sample_id] -= 1
            self._settle(sample_id)
        return []

    def _settle(self, sample_id: int) -> None:
        if not self._left[sample_id] and self.ledger.stage(sample_id) is Stage.SCORED:
            self.ledger.move(sample_id, to=Stage.READY)
