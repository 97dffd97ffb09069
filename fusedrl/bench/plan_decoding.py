"""Generation of one engine, token by token, in blocks that are long enough to sleep for.

An engine of pp stages has pp batches in flight, each of a share of its rows; a batch's next block starts on the first
stage when its last one left the last stage. Samples that wait take free rows at once. Rows, and the mean context of a
batch, are those of every single token.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fusedrl.plan.calls import Way
from fusedrl.plan.costs import Costs
from fusedrl.plan.memory import BYTES, stages_of
from fusedrl.plan.sizes import ModelSizes


@dataclass(frozen=True)
class Block:
    """Some tokens of one batch in flight. seconds: of each stage; ended: samples that are whole after it."""

    batch: int
    seconds: tuple[float, ...]
    ended: tuple[int, ...]


@dataclass
class Batch:
    """Rows that go round together: sample -> [tokens made, tokens to make]."""

    room: int
    rows: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class TokenTimes:
    """Seconds of each stage for one token of a batch, and for prompts that are read in."""

    costs: Costs
    model: ModelSizes
    way: Way

    def token(self, rows: int, context: float) -> list[float]:
        layer = self.costs.decode(self.model, tp=self.way.tp, rows=rows, context=context)
        message = self._message(float(rows))
        seconds = [len(stage.layers) * layer + message for stage in stages_of(self.model, self.way.layout)]
        seconds[-1] += self.costs.decode_ends(self.model, tp=self.way.tp, rows=rows)
        return seconds

    def prompts(self, count: int, prompt: int) -> list[float]:
        tokens = float(count * prompt)
        layer = self.costs.prefill(self.model, tp=self.way.tp, tokens=tokens, length=float(prompt))
        message = self._message(tokens)
        return [len(stage.layers) * layer + message for stage in stages_of(self.model, self.way.layout)]

    def _message(self, tokens: float) -> float:
        if self.way.pp == 1:
            return 0.0
        across = self.way.mesh.count > self.costs.cluster.devices
        return self.costs.message(
            BYTES[self.costs.dtype] * tokens * self.model.arch.hidden_size / self.way.tp, across_nodes=across
        )


def blocks(
    times: TokenTimes, samples: Sequence[int], lengths: Sequence[int], *, prompt: int, least: float
) -> list[Block]:
    """All blocks of an engine, in the order in which they start. least: seconds of a block on its slowest stage.

    lengths: tokens to make of each of the samples."""
    waiting = [(sample, length) for sample, length in zip(samples, lengths, strict=True)][::-1]
    rooms = [len(range(b, times.way.size, times.way.pp)) for b in range(times.way.pp)]
    batches = [Batch(room) for room in rooms if room]
    found: list[Block] = []
    while waiting or any(batch.rows for batch in batches):
        for number, batch in enumerate(batches):
            if block := _block(times, number, batch, waiting, _share(waiting, batches, number), prompt, least):
                found.append(block)
    return found


def _share(waiting: list[tuple[int, int]], batches: list[Batch], number: int) -> int:
    """Rows that a batch may have: at the beginning samples are shared out evenly."""
    total = len(waiting) + sum(len(batch.rows) for batch in batches)
    return min(batches[number].room, len(range(number, total, len(batches))))


def _block(
    times: TokenTimes,
    number: int,
    batch: Batch,
    waiting: list[tuple[int, int]],
    share: int,
    prompt: int,
    least: float,
) -> Block | None:
    seconds, ended = [0.0] * times.way.pp, list[int]()
    while max(seconds) < least:
        if seated := _seat(batch, waiting, share):
            seconds = _sum(seconds, times.prompts(seated, prompt))
        if not batch.rows:
            break
        context = prompt + sum(made for made, _ in batch.rows.values()) / len(batch.rows)
        seconds = _sum(seconds, times.token(len(batch.rows), context))
        ended += _advance(batch)
    return Block(number, tuple(seconds), tuple(ended)) if max(seconds) > 0 else None


def _seat(batch: Batch, waiting: list[tuple[int, int]], share: int) -> int:
    """How many samples took free rows."""
    count = min(len(waiting), share - len(batch.rows))
    for _ in range(count):
        sample, length = waiting.pop()
        batch.rows[sample] = [0, length]
    return max(0, count)


def _advance(batch: Batch) -> list[int]:
    for row in batch.rows.values():
        row[0] += 1
    ended = [sample for sample, (made, length) in batch.rows.items() if made >= length]
    for sample in ended:
        del batch.rows[sample]
    return ended


def _sum(left: list[float], right: list[float]) -> list[float]:
    return [a + b for a, b in zip(left, right, strict=True)]


def engine_blocks(
    times: TokenTimes, lengths_N: Sequence[int], *, engine: int, prompt: int, least: float
) -> list[Block]:
    """Of one engine; samples are dealt to the engines in turn."""
    samples = range(engine, len(lengths_N), times.way.dp)
    return blocks(times, samples, [int(lengths_N[i]) for i in samples], prompt=prompt, least=least)


def by_batch(found: Sequence[Block]) -> Iterator[tuple[Block, bool]]:
    """Each block, and whether it is its batch's first."""
    seen: set[int] = set()
    for block in found:
        yield block, block.batch not in seen
        seen.add(block.batch)
