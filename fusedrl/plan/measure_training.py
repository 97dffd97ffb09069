"""Seconds of F, B and W of a model's parts on this rank: embedding, one layer, head with its loss; and of Adam's step.

A forward of the whole model is run once with hooks that note what each part is called with; then each part is run
alone on what it was given, as the executor runs it: the whole backward, and the split one with its W put off.
Shapes: B rows, T tokens, H hidden, V vocabulary.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from fusedrl.models.logprob import token_log_probs
from fusedrl.models.training import TrainableModel
from fusedrl.parallel.layout import Layout
from fusedrl.pipeline.megatron_stage import megatron_model
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.postponed import postponing
from fusedrl.plan.timing import Mark, laps, medians, over_ranks

Call = tuple[tuple[Any, ...], dict[str, Any]]
Part = Callable[[Tensor | None], Tensor]


@dataclass(frozen=True)
class Parts:
    """What runs each part on a micro-batch, and the hidden states that it gets; None for the embedding."""

    runs: Mapping[str, tuple[Part, Tensor | None]]


class TrainingBench:
    """One model on this rank, whole (one stage), and how its parts are timed."""

    def __init__(self, trained: TrainableModel, *, layout: Layout, repeats: int) -> None:
        self.trained, self.repeats = trained, repeats
        self.module = trained.stages[0]
        self.device = next(self.module.parameters()).device
        self._pipeline = megatron_model("model", self.module, layout=layout, rank=dist.get_rank())
        self._tp = trained.groups.tp

    def passes(self, *, rows: int, length: int) -> dict[str, tuple[float, ...]]:
        """(F, B, W) seconds of "embedding", "layer" and "head" on `rows` rows of `length` tokens. A collective."""
        parts = self._parts(self._microbatch(rows, length))
        return {name: self._timed(run, hidden) for name, (run, hidden) in parts.runs.items()}

    def whole(self, *, rows: int, length: int) -> tuple[float, ...]:
        """(F, B) seconds of the whole model with its loss, layers one after the other. A collective."""
        microbatch = self._microbatch(rows, length)

        def work(mark: Mark) -> None:
            dist.barrier(group=self._tp)
            mark()
            loss = self._loss(self._pipeline.stages[0](microbatch, None), microbatch)
            mark()
            self._backward(loss, torch.ones_like(loss))
            mark()

        with self.trained.no_sync():
            return over_ranks(medians(laps(work, device=self.device, repeats=self.repeats)))

    def step(self) -> float:
        """Seconds of clipping and Adam over this rank's parameters. A collective."""

        def work(mark: Mark) -> None:
            self.trained.zero_grad()
            dist.barrier(group=self._tp)
            mark()
            self.trained.step()
            mark()

        return over_ranks(medians(laps(work, device=self.device, repeats=self.repeats)))[0]

    def _microbatch(self, rows: int, length: int) -> MicroBatch:
        vocabulary, generator = self.module.arch.vocab_size, torch.Generator().manual_seed(length)
        return MicroBatch(torch.randint(vocabulary, (rows, length), generator=generator).to(self.device))

    def _loss(self, outputs_BTV: Tensor, microbatch: MicroBatch) -> Tensor:
        if self.module.head == "value":
            return outputs_BTV.float().square().sum()
        vocabulary, targets_BT = self.module.arch.vocab_size, microbatch.tokens_BT
        return -token_log_probs(outputs_BTV, targets_BT, tp_group=self._tp, vocab_size=vocabulary).sum()

    def _timed(self, run: Part, hidden: Tensor | None) -> tuple[float, ...]:
        def work(mark: Mark) -> None:
            dist.barrier(group=self._tp)
            given = None if hidden is None else hidden.detach().requires_grad_()
            mark()
            output = run(given)
            mark()
            gradient = torch.ones_like(output)
            mark()
            self._backward(output, gradient)
            mark()
            self._split(run(given), gradient, mark)

        with self.trained.no_sync():
            forward, _, backward, *_, weight = medians(laps(work, device=self.device, repeats=self.repeats))
        return over_ranks([forward, backward, weight])

    def _backward(self, output: Tensor, gradient: Tensor) -> None:
        torch.autograd.backward(output, gradient)
        for delayed in self._pipeline.delayed.values():
            delayed()

    def _split(self, output: Tensor, gradient: Tensor, mark: Mark) -> None:
        with postponing() as put_off:
            torch.autograd.backward(output, gradient)
        mark()
        put_off.run()
        for delayed in self._pipeline.delayed.values():
            delayed()
        mark()

    def _parts(self, microbatch: MicroBatch) -> Parts:
        module = self.module
        watched = {"embedding": module.embedding, "layer": module.decoder.layers[-1], "output": module.output_layer}
        with _watching({**watched, "norm": module.decoder.final_layernorm}) as calls, torch.no_grad():
            self._pipeline.stages[0](microbatch, None)

        def layer(hidden: Tensor | None) -> Tensor:
            args, named = _with_input(calls["layer"], hidden)
            return watched["layer"](*args, **named)[0]

        def embedding(_: Tensor | None) -> Tensor:
            args, named = calls["embedding"]
            return module.embedding(*args, **named)

        def ending(hidden: Tensor | None) -> Tensor:
            args, named = _with_input(calls["output"], module.decoder.final_layernorm(hidden))
            return self._loss(module.output_layer(*args, **named)[0].transpose(0, 1), microbatch)

        runs: dict[str, tuple[Part, Tensor | None]] = {"embedding": (embedding, None)}
        runs |= {"layer": (layer, _input(calls["layer"])), "head": (ending, _input(calls["norm"]))}
        return Parts(runs)


@contextmanager
def _watching(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, Call]]:
    """Notes what each module is called with."""
    calls: dict[str, Call] = {}

    def note(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            calls[name] = args, named

        return hook

    handles = [each.register_forward_pre_hook(note(name), with_kwargs=True) for name, each in modules.items()]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _input(call: Call) -> Tensor:
    args, named = call
    return args[0] if args else named.get("hidden_states", named.get("input_"))


def _with_input(call: Call, hidden: Tensor | None) -> Call:
    """The call, with another input."""
    args, named = call
    if args:
        return (hidden, *args[1:]), named
    return args, named | {"hidden_states" if "hidden_states" in named else "input_": hidden}
