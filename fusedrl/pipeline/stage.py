"""Forward and backward of one micro-batch on one stage of one model.

                 F                                        B
    received ->  leaf -> stage -> output -> send     gradient of output -> stage -> leaf.grad -> send
                             last stage: loss            last stage: loss.backward()

Nothing here knows Megatron-Core: a stage is a callable. Nothing here divides: a loss comes out of its function already
normalised by the global count, and gradients of micro-batches add up.

Between F and B only the graph's end (a gradient edge) is kept, not the output: the output lives as long as its message
does, and is freed with it. Other trainers swap the output's `.data` for the same effect, which breaks views and
asynchronous sends.

Shapes: B rows, T tokens, H hidden size.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.tokens import TokenForm, WholeRows

Metrics = Mapping[str, Tensor | float]
LossFunction = Callable[[Tensor, MicroBatch], tuple[Tensor, Metrics]]
"""(last stage's output, micro-batch) -> (loss, metric sums). The loss is a share of the global mean: it is not divided
again by anything."""
CollectFunction = Callable[[Tensor, MicroBatch], Any]
"""(last stage's output, micro-batch) -> what to keep of it, under no_grad."""

# torch < 2.7 starts a backward from tensors only; there the output is kept until its B
_STARTS_FROM_EDGES = "GradientEdge" in str(inspect.signature(torch.autograd.backward))


class StageFunction(Protocol):
    """One stage's computation. received is None on the first stage; the result is what the next stage receives, or
    the model's output on the last stage."""

    def __call__(self, microbatch: MicroBatch, received: Tensor | None) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class PipelineModel:
    """A model as this rank sees it: the stages it holds, and what passes between stages.

    placement: pipeline column of each stage; the same on all ranks, as are the columns.
    columns: for each (dp, cp, tp) coordinate, tp fastest, the world ranks by pipeline column.
    message_shape: shape of the tensor between two stages, the same for every boundary of the model.
    modules: what to switch between train and eval. before_pass: called before the first op of each pass.
    splits: whether the stages' layers can put their weight gradients off (fusedrl.pipeline.postponed).
    delayed: by stage, what computes the weight gradients that its layers put off by themselves in every backward, the
    earliest backward's first.
    tokens: how rows lie in the stages, and so which tokens an output holds.
    A rank that holds no part of a model knows its name and where it lies.
    """

    name: str
    placement: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]
    stages: Mapping[int, StageFunction]
    message_shape: Callable[[MicroBatch], tuple[int, ...]]
    dtype: torch.dtype = torch.float32
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    modules: tuple[torch.nn.Module, ...] = ()
    tp: int = 1
    cp: int = 1
    tokens: TokenForm = field(default_factory=WholeRows)
    before_pass: Callable[[], None] | None = None
    splits: bool = False
    delayed: Mapping[int, Callable[[], None]] = field(default_factory=dict)

    def is_last(self, stage: int) -> bool:
        return stage == len(self.placement) - 1

    def holds(self, world_rank: int) -> bool:
        """Whether a rank holds a part of the model."""
        return any(world_rank in ranks for ranks in self.columns)

    def ranks(self, world_rank: int) -> tuple[int, ...]:
        """The world ranks with this rank's (tp, dp) coordinates, by pipeline column."""
        mine = [ranks for ranks in self.columns if world_rank in ranks]
        if not mine:
            raise ValueError(f"model {self.name}: rank {world_rank} is in none of its columns {self.columns}")
        return mine[0]

    def speaks(self, world_rank: int) -> bool:
        """Whether a rank speaks for its model replica: the first of the last stage's tensor- and context-parallel
        ranks, who all hold the same loss and results."""
        if not self.holds(world_rank):
            return False
        index = self.columns.index(self.ranks(world_rank))
        return index % (self.tp * self.cp) == 0 and self.ranks(world_rank)[self.placement[-1]] == world_rank

    def held_by(self, world_rank: int) -> tuple[int, ...]:
        """The stages that a rank must hold."""
        if not self.holds(world_rank):
            return ()
        column = self.ranks(world_rank).index(world_rank)
        return tuple(stage for stage, place in enumerate(self.placement) if place == column)


@dataclass(frozen=True, eq=False)
class InFlight:
    """What B needs of a done F: the leaf whose gradient goes to the previous stage, and where backward starts."""

    leaf: Tensor | None
    end: Any  # GradientEdge, or the tensor itself


def as_leaf(received: Tensor) -> Tensor:
    """A fresh autograd leaf on the received data: a buffer used twice would keep hooks and gradients of its past."""
    return received.detach().requires_grad_()


def end_of_graph(tensor: Tensor) -> Any:
    return torch.autograd.graph.get_gradient_edge(tensor) if _STARTS_FROM_EDGES else tensor


def forward(
    stage: StageFunction, microbatch: MicroBatch, received: Tensor | None, *, loss: LossFunction | None
) -> tuple[Tensor, InFlight, Metrics]:
    """F of a training pass. loss is given on the last stage; the returned tensor is then the loss."""
    leaf = None if received is None else as_leaf(received)
    metrics: Metrics = {}
    output = stage(microbatch, leaf)
    if loss is not None:
        output, metrics = loss(output, microbatch)
        if output.dim() != 0 or not output.requires_grad:
            raise ValueError(f"a loss must be a scalar that requires grad, got shape {list(output.shape)}")
    return output.detach(), InFlight(leaf, end_of_graph(output)), detached(metrics)


def backward(done: InFlight, gradient: Tensor | None) -> Tensor | None:
    """B: adds to the parameters' gradients; the gradient for the previous stage, or None on the first stage."""
    torch.autograd.backward(done.end, gradient)
    if done.leaf is None:
        return None
    assert done.leaf.grad is not None, "a stage's output does not depend on what it received"
    return done.leaf.grad


def detached(metrics: Metrics) -> dict[str, Tensor | float]:
    return {name: value.detach() if isinstance(value, Tensor) else value for name, value in metrics.items()}
