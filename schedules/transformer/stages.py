"""Stages of a model: how many layers each has, and what each costs for each micro-batch.

The first stage also looks up embeddings, which costs next to nothing; the actor's last stage has the language-model
head, worth a third to a half of a layer; the critic's value head costs next to nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from schedules.transformer.device import Device
from schedules.transformer.flops import Flops, head_flops, layer_flops
from schedules.transformer.memory import head_bytes, layer_bytes, message_bytes
from schedules.transformer.shapes import Shape


@dataclass(frozen=True)
class Part:
    """One model cut into stages. layers: of each stage. head: whether the last stage has a language-model head."""

    shape: Shape
    layers: tuple[int, ...]
    head: bool
    tp: int
    sequence_parallel: bool = True
    attention: str = "flash"

    def seconds(self, stage: int, lengths: Sequence[int], *, device: Device) -> Flops:
        """Seconds of a stage's forward, input gradient and weight gradient over sequences of these lengths."""
        work = layer_flops(self.shape, lengths=lengths, attention=self.attention) * self.layers[stage]
        if self._has_head(stage):
            work += head_flops(self.shape, tokens=sum(lengths))
        return work * device.work_seconds(1.0, tp=self.tp)

    def bytes(self, stage: int, lengths: Sequence[int]) -> float:
        """Activation bytes of a stage on each of its devices."""
        tp, sp, tokens = self.tp, self.sequence_parallel, sum(lengths)
        layer = layer_bytes(self.shape, lengths=lengths, tp=tp, sequence_parallel=sp, attention=self.attention)
        head = head_bytes(self.shape, tokens=tokens, tp=tp, sequence_parallel=sp) if self._has_head(stage) else 0.0
        return layer * self.layers[stage] + head

    def message_bytes(self, lengths: Sequence[int]) -> float:
        """Bytes that one device sends to the next stage."""
        return message_bytes(self.shape, tokens=sum(lengths), tp=self.tp, sequence_parallel=self.sequence_parallel)

    def _has_head(self, stage: int) -> bool:
        return self.head and stage == len(self.layers) - 1


def split_layers(shape: Shape, *, stages: int, head: bool) -> tuple[int, ...]:
    """Layers of each stage such that the heaviest stage is lightest; of equals the later gets more.

    A later stage keeps fewer micro-batches in flight under 1F1B, so a layer there costs less memory.
    """
    layers = [0] * stages
    load = [0] * (stages - 1) + [shape.head_weights if head else 0]
    for _ in range(shape.layers):
        lightest = min(range(stages), key=lambda s: (load[s], -s))
        layers[lightest] += 1
        load[lightest] += shape.layer_weights
    return tuple(layers)
