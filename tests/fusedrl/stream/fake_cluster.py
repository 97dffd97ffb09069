"""Instances and a reward function without sockets or clocks: whoever acts next is drawn, messages keep their order."""

from collections import deque
from collections.abc import Mapping
from random import Random

from fusedrl.stream.control import Command, Control, Score, Send
from fusedrl.stream.messages import (
    Abort,
    Extract,
    Extracted,
    Finished,
    Generate,
    Hello,
    Infer,
    Message,
    SampleState,
    Stop,
    UnitRef,
    UnitsDone,
    Values,
    Want,
)


class FakeInstance:
    """Decodes one token a turn for each sample, then runs units, then wants more; as instance.py does."""

    def __init__(self, index: int, *, rows: int, lengths: Mapping[int, int]) -> None:
        self.index, self.lengths = index, lengths
        self.inbox: deque[Message] = deque()
        self.outbox: deque[Message] = deque([Hello(rows)])
        self.live: dict[int, int] = {}  # sample id -> tokens so far
        self.units: tuple[UnitRef, ...] = ()
        self.read: tuple[SampleState, ...] = ()
        self.seen, self.wanted, self.over = 0, False, False
        self.took_in = 0
        self.gave_out = 0

    def turn(self) -> None:
        if self.inbox:
            self.take(self.inbox.popleft())
        elif self.live:
            self.decode()
        elif self.units:
            values = tuple(Values(unit.task, s.sample_id, s.tokens) for unit in self.units for s in self.read)
            self.outbox.append(UnitsDone(self.units, tuple(dict.fromkeys(values))))
            self.units = ()
        elif not self.wanted:
            self.outbox.append(Want(self.seen))
            self.wanted = True

    def take(self, message: Message) -> None:
        match message:
            case Generate():
                assert not set(self.live) & {state.sample_id for state in message.samples}
                self.live |= {state.sample_id: state.length for state in message.samples}
                self.seen, self.wanted, self.took_in = self.seen + 1, False, self.took_in + (message.source >= 0)
            case Extract():
                ids = [each for each in message.sample_ids if each in self.live]
                states = tuple(state(each, self.live.pop(each)) for each in ids)
                self.outbox.append(Extracted(message.destination, states, 0))
                self.seen, self.wanted, self.gave_out = self.seen + 1, False, self.gave_out + 1
            case Infer():
                assert not self.units
                self.units, self.read, self.wanted = message.units, message.samples, False
            case Stop() | Abort():
                self.over = True

    def decode(self) -> None:
        self.live = {each: tokens + 1 for each, tokens in self.live.items()}
        done = [each for each, tokens in self.live.items() if tokens >= self.lengths[each]]
        for each in done:
            del self.live[each]
        if done:
            self.outbox.append(Finished(tuple(state(each, self.lengths[each], reason="stop") for each in done)))


def state(sample_id: int, tokens: int, *, reason: str = "") -> SampleState:
    data = b"".join((sample_id * 1000 + position).to_bytes(4, "little") for position in range(tokens))
    return SampleState(sample_id, data, data, reason)


class FakeCluster:
    """`run` until the step ends; asserts that it does."""

    def __init__(self, control: Control, *, rows: int, lengths: Mapping[int, int], random: Random) -> None:
        self.control, self.random = control, random
        self.instances = [FakeInstance(i, rows=rows, lengths=lengths) for i in range(len(control.work.shares))]
        self.to_score: list[int] = []
        self.commands: list[Command] = []

    def run(self, *, turns: int = 200_000) -> None:
        for _ in range(turns):
            self.act()
            if self.control.ended and all(each.over for each in self.instances):
                return
        raise AssertionError(f"the step did not end: {self.control.ledger.counts}")

    def act(self) -> None:
        choice = self.random.randrange(2 * len(self.instances) + 1)
        if choice == 2 * len(self.instances):
            if self.to_score:
                sample_id = self.to_score.pop(self.random.randrange(len(self.to_score)))
                self.deliver(self.control.scored(sample_id, sample_id / 2))
            return
        instance = self.instances[choice // 2]
        if choice % 2 or not instance.outbox:
            instance.turn()
        else:
            self.deliver(self.control.handle(instance.outbox.popleft(), instance=instance.index))  # type: ignore[arg-type]

    def deliver(self, commands: list[Command]) -> None:
        self.commands += commands
        for command in commands:
            if isinstance(command, Score):
                self.to_score.append(command.sample.sample_id)
            elif isinstance(command, Send):
                self.instances[command.instance].inbox.append(command.message)
