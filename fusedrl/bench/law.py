"""The law on this machine's device: orders change when work happens, never what is computed, bit for bit.

    python -m fusedrl.bench.law [small=true]                                   # a V of two stages on one rank
    torchrun --nproc-per-node 2 -m fusedrl.bench.law [small=true]              # V of four stages on two ranks

Each order trains a fresh pair of the same seed for two steps; then gradients, parameters and optimizer state must be
equal by torch.equal. Kernels that add in no fixed sequence (attention's backward among them) are asked to be
deterministic, as two runs of one order would differ with them.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.bench import arguments
from fusedrl.bench.checks import FAILED, Failed, Figures
from fusedrl.bench.pair import Batches, Pair, draw_batches, make_pair
from fusedrl.models.architecture import Architecture
from fusedrl.models.implementation import AUTO, Implementation
from fusedrl.pipeline.plan import plan_pass
from fusedrl.pipeline.training import train_pass

ORDERS = ("serial", "fused", "fused_split")
STEPS = 2
ROWS = ((2, 1, 3), (1, 2))  # of the micro-batches of each step: their number changes


@dataclass(frozen=True)
class Sizes:
    """A model, its data type, and the tokens of a row."""

    arch: Architecture
    dtype: torch.dtype
    length: int


def sizes(*, small: bool) -> Sizes:
    """What runs on a GPU, or as quickly on a CPU."""
    scale = 1 if small else 16
    arch = Architecture(
        family="llama",
        hidden_size=32 * scale,
        num_layers=4,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8 * scale,
        ffn_hidden_size=64 * scale,
        vocab_size=100 * scale,
        max_position=128,
    )
    return Sizes(arch, torch.float32 if small else torch.bfloat16, 8 if small else 128)


@dataclass(frozen=True)
class Options:
    """small: sizes for a CPU; transformer_impl: as in the configuration."""

    small: bool = False
    transformer_impl: str = "auto"


def check_law(found: Sizes, *, implementation: Implementation = AUTO) -> Figures:
    """Raises Failed naming the first tensors that differ. A collective of all ranks."""
    with _deterministic():
        states = {order: _trained(found, order=order, implementation=implementation) for order in ORDERS}
    first = states[ORDERS[0]]
    for order in ORDERS[1:]:
        different = [name for name, tensor in first.items() if not torch.equal(tensor, states[order][name])]
        if different:
            raise Failed(f"{order} differs from {ORDERS[0]} in {len(different)} of {len(first)}: {different[:3]}")
    return {"orders": list(ORDERS), "ranks": dist.get_world_size(), "steps": STEPS, "tensors_equal": len(first)}


def _trained(found: Sizes, *, order: str, implementation: Implementation) -> dict[str, Tensor]:
    """Gradients of the last step, parameters and optimizer state of both models."""
    pair = make_pair(found.arch, dtype=found.dtype, implementation=implementation)
    for step in range(STEPS):
        batches = draw_batches(found.arch, rows=ROWS[step], length=found.length, device=pair.device, seed=step)
        gradients = train_once(pair, batches, order=order)
    pair.executor.close()
    state = {f"{name}/gradient/{i}": each for name, all_ in gradients.items() for i, each in enumerate(all_)}
    for name, model in pair.models.items():
        state |= dict(_tensors(model.state(), f"{name}/state"))
    return state


def train_once(pair: Pair, batches: Batches, *, order: str) -> dict[str, list[Tensor]]:
    """One pass in this order and a step of both models; the gradients that the step took."""
    program = plan_pass(pair.planned(batches), method=order)
    train_pass(pair.executor, program, pair.work(batches), models=pair.models)
    gradients = {
        name: [parameter.main_grad.clone() for parameter in model.module.parameters()]
        for name, model in pair.models.items()
    }
    for model in pair.models.values():
        model.step()
    return gradients


def _tensors(state: Any, prefix: str) -> Iterator[tuple[str, Tensor]]:
    if isinstance(state, Tensor):
        yield prefix, state.detach().clone()
    elif isinstance(state, Mapping):
        for key in state:
            yield from _tensors(state[key], f"{prefix}/{key}")
    elif isinstance(state, list | tuple):
        for i, each in enumerate(state):
            yield from _tensors(each, f"{prefix}/{i}")


@contextmanager
def _deterministic() -> Iterator[None]:
    """Where a kernel has no deterministic form torch warns, and the comparison shows whether it mattered."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def main() -> None:
    from fusedrl.trainers.world import joined

    options = arguments.read(Options, sys.argv[1:])
    with joined(timeout_s=120):
        try:
            figures = check_law(
                sizes(small=options.small), implementation=Implementation(transformer_impl=options.transformer_impl)
            )
        except Failed as failed:
            print(f"rank {dist.get_rank()}: {failed}", file=sys.stderr, flush=True)
            sys.exit(FAILED)
        if dist.get_rank() == 0:
            print(figures)


if __name__ == "__main__":
    main()
