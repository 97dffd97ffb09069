"""Layers of Megatron-Core under whole and split backwards, on tensor-parallel ranks; what must be equal, by case.

Shapes: T tokens, B samples, H hidden size.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from megatron.core.tensor_parallel import ColumnParallelLinear, RowParallelLinear, VocabParallelEmbedding, layers
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor, nn

import megatron_patches
from megatron_patches import weight_gradients

HIDDEN, VOCAB, TOKENS = 8, 16, 6
Gradient = Callable[[], Tensor | None]


class Store:
    """What a split backward offered, and whether it may."""

    def __init__(self) -> None:
        self.open = False
        self.work: list[tuple[Tensor, Gradient]] = []

    def __call__(self, parameter: Tensor, gradient: Gradient) -> bool:
        if self.open:
            self.work.append((parameter, gradient))
        return self.open


def config(*, sequence_parallel: bool = False) -> TransformerConfig:
    return TransformerConfig(
        num_layers=1,
        hidden_size=HIDDEN,
        num_attention_heads=2,
        tensor_model_parallel_size=dist.get_world_size(),
        sequence_parallel=sequence_parallel and dist.get_world_size() > 1,
        use_cpu_initialization=True,
        perform_initialization=False,
    )


def column(*, sequence_parallel: bool = False, bias: bool = True) -> nn.Module:
    return ColumnParallelLinear(
        HIDDEN,
        2 * HIDDEN,
        config=config(sequence_parallel=sequence_parallel),
        init_method=lambda w: w,
        bias=bias,
        gather_output=False,
        tp_group=dist.group.WORLD,
    )


def row(*, sequence_parallel: bool = False) -> nn.Module:
    return RowParallelLinear(
        HIDDEN,
        HIDDEN,
        config=config(sequence_parallel=sequence_parallel),
        init_method=lambda w: w,
        bias=False,
        input_is_parallel=True,
        skip_bias_add=False,
        tp_group=dist.group.WORLD,
    )


def embedding() -> nn.Module:
    return VocabParallelEmbedding(VOCAB, HIDDEN, config=config(), init_method=lambda w: w, tp_group=dist.group.WORLD)


class Tied(nn.Module):
    """One table that is looked up and multiplied by."""

    def __init__(self) -> None:
        super().__init__()
        self.table = embedding()
        self.head = ColumnParallelLinear(
            HIDDEN,
            VOCAB,
            config=config(),
            init_method=lambda w: w,
            bias=False,
            gather_output=False,
            skip_weight_param_allocation=True,
            tp_group=dist.group.WORLD,
        )

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        looked_up = self.table(torch.arange(2 * TOKENS).view(TOKENS, 2) % VOCAB)
        return self.head((looked_up + x).sin(), weight=self.table.weight)


def run_cases() -> dict[str, dict[str, bool]]:
    megatron_patches.apply()
    world = dist.get_world_size()
    whole = (TOKENS, 2, HIDDEN)
    part, narrow = (TOKENS // world, 2, HIDDEN), (TOKENS, 2, HIDDEN // world)
    tokens = torch.arange(2 * TOKENS).view(TOKENS, 2) % VOCAB
    return {
        "column with bias": compare(column(), whole),
        "column, sequence parallel": compare(column(sequence_parallel=True), part),
        "row": compare(row(), narrow),
        "row, sequence parallel": compare(row(sequence_parallel=True), narrow),
        "embedding": compare(embedding(), None, call=lambda layer, x: layer(tokens)),
        "tied": compare(Tied(), whole),
        "chunked output, a part unused": compare(
            column(), whole, call=lambda layer, x: torch.cat(layer(x)[0].chunk(4, dim=-1)[1:3]).sin()
        ),
        "one layer twice": compare(
            column(bias=False),
            whole,
            call=lambda layer, x: layer((layer(x)[0].sin().repeat(1, 1, world))[..., :HIDDEN])[0],
        ),
    }


def compare(layer: nn.Module, shape: tuple[int, ...] | None, *, call: Any = None) -> dict[str, bool]:
    """The split backward against the stock's, from the same start."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    for parameter in layer.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    start = None if shape is None else torch.randn(shape, generator=generator)
    store = Store()
    stock, _ = gradients(layer, start, call=call)
    weight_gradients.connect(store)
    closed, _ = gradients(layer, start, call=call)
    store.open = True
    split, before = gradients(layer, start, call=call, store=store)
    weight_gradients.connect(lambda parameter, gradient: False)
    weights = [name for name in stock if name.endswith("weight")]
    return {
        "there is a weight with a gradient": bool(weights) and all(float(stock[n].abs().max()) > 0 for n in weights),
        "inert while nobody takes": same(stock, closed),
        "equal after W": same(stock, split),
        "no weight gradient in B": all(before[name] is None for name in weights),
        "all else in B": same(
            {n: g for n, g in stock.items() if n not in weights}, {n: g for n, g in before.items() if n not in weights}
        ),
    }


def gradients(
    layer: nn.Module, start: Tensor | None, *, call: Any, store: Store | None = None
) -> tuple[dict[str, Tensor], dict[str, Tensor | None]]:
    """By name, at the end and before the postponed work ran."""
    layer.zero_grad()
    x = None if start is None else start.clone().requires_grad_()
    output = layer(x)[0] if call is None else call(layer, x)
    (output.square().sum() + output.sum()).backward()
    before = _found(layer, x)
    with torch.no_grad():
        for parameter, gradient in [] if store is None else store.work:
            parameter.grad = gradient() if parameter.grad is None else parameter.grad + gradient()  # type: ignore[operator]
    return _found(layer, x), before  # type: ignore[return-value]


def _found(layer: nn.Module, x: Tensor | None) -> dict[str, Tensor | None]:
    named = [(n, p.grad) for n, p in layer.named_parameters()] + ([] if x is None else [("input", x.grad)])
    return {name: None if gradient is None else gradient.clone() for name, gradient in named}


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def fused_accumulation() -> dict[str, Any]:
    """With a kernel that adds to main_grad, which here is a stand-in: what W does."""
    megatron_patches.apply()
    layer = column(bias=False)
    layer.gradient_accumulation_fusion = True
    layer.weight.data = torch.randn(layer.weight.shape)
    layer.weight.main_grad = torch.zeros_like(layer.weight)
    called: list[str] = []

    def add(x_NI: Tensor, grad_NO: Tensor, main: Tensor) -> None:
        called.append("fp32")
        main.add_(grad_NO.t() @ x_NI)

    layers.fused_weight_gradient_mlp_cuda = SimpleNamespace(wgrad_gemm_accum_fp32=add)
    store, x = Store(), torch.randn(TOKENS, 2, HIDDEN)
    store.open = True
    weight_gradients.connect(store)
    layer(x)[0].sum().backward()
    in_b = list(called)
    results = [gradient() for _, gradient in store.work]
    weight_gradients.connect(lambda parameter, gradient: False)
    expected = torch.ones(2 * TOKENS, layer.weight.shape[0]).t() @ x.view(-1, HIDDEN)
    return {
        "in B": in_b,
        "in W": called,
        "results": results,
        "right": torch.equal(layer.weight.main_grad, expected),
        "grad": layer.weight.grad is None,
    }
