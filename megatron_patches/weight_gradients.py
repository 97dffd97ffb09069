"""Weight gradients of tensor-parallel layers apart from their input gradients, where someone asks for it.

What:     LinearWithGradAccumulationAndAsyncCommunication.backward and the look-up of VocabParallelEmbedding offer
          their weight gradient to the function given to `connect`. Where it takes the offer, the input gradient alone
          is computed, by the stock's own steps; where it does not (and before `connect`), the stock backward runs.
Why:      they compute both gradients in one autograd function, so a pipeline order could not put the weight part off.
          The stock's `defer_embedding_wgrad_compute` does it for the output layer alone, with fused accumulation alone.
Versions: megatron-core 0.16 to 0.19. Unlike the other patches it is no matter of the CPU: `apply` of the package leaves
          it out, whoever wants split backwards calls `connect`.
Remove:   when the layers' `backward_dw` does this upstream.

Shapes: N tokens, I and O the layer's input and output size on this rank, V vocabulary rows of this rank.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from megatron.core.tensor_parallel import layers
from megatron.core.utils import prepare_input_tensors_for_wgrad_compute
from torch import Tensor

from megatron_patches.retarget import PatchError

NAME = "weight_gradients"
Offer = Callable[[Tensor, Callable[[], Tensor | None]], bool]
"""(parameter, what computes its gradient) -> whether that will be called later. The gradient is None where it is added
to main_grad at once."""

_READ_OF_CONTEXT = ("input", "weight", "bias", "gradient_accumulation_fusion", "allreduce_dgrad", "sequence_parallel")
_Linear = layers.LinearWithGradAccumulationAndAsyncCommunication
_stock_backward = _Linear.backward
_arguments = list(inspect.signature(_Linear.forward).parameters)[1:]


def _take_nothing(parameter: Tensor, gradient: Callable[[], Tensor | None]) -> bool:
    return False


_offer: Offer = _take_nothing


def connect(offer: Offer) -> None:
    """Patch the layers, once, and offer their weight gradients to `offer` from now on."""
    global _offer
    missing = [name for name in (*_READ_OF_CONTEXT, "tp_group") if name not in _arguments]
    if missing:
        raise PatchError(f"{_Linear.__name__}.forward takes {_arguments} in this Megatron-Core, without {missing}")
    if not hasattr(layers, "F"):
        raise PatchError(f"{layers.__name__} has no F to look embeddings up with in this Megatron-Core")
    _offer = offer
    _Linear.backward = staticmethod(_linear_backward)
    layers.F = _Functional()


@layers.custom_bwd
def _linear_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """The stock's backward, or its part without the weight."""
    saved, weight = ctx.saved_tensors
    gathered_over = ctx.tp_group if ctx.sequence_parallel else None
    add_to = ctx.main_grad if ctx.gradient_accumulation_fusion else None

    def gradient() -> Tensor | None:  # without ctx, which would hold on to the graph
        return _weight_gradient(_gathered(saved, gathered_over), grad_output, add_to=add_to)

    if not weight.is_leaf or not _offer(weight, gradient):
        return _stock_backward(ctx, grad_output)
    grad_input = _reduced(ctx, grad_output.matmul(weight), like=saved)
    grad_bias = grad_output.reshape(-1, grad_output.shape[-1]).sum(dim=0) if ctx.use_bias else None
    return grad_input, None, grad_bias, *[None] * (len(_arguments) - 3)


def _reduced(ctx: Any, grad_input: Tensor, *, like: Tensor) -> Tensor:
    """Summed over tensor-parallel ranks, as the layer's forward shared its input out."""
    if ctx.sequence_parallel:
        part = torch.empty_like(like, requires_grad=False)
        layers.dist_reduce_scatter_func(part, grad_input, group=ctx.tp_group)
        return part
    if ctx.allreduce_dgrad:
        torch.distributed.all_reduce(grad_input, group=ctx.tp_group)
    return grad_input


def _weight_gradient(whole_input: Tensor, grad_output: Tensor, *, add_to: Tensor | None) -> Tensor | None:
    """[O, I]; None where a fused kernel adds it to a main_grad."""
    grad_NO, input_NI = prepare_input_tensors_for_wgrad_compute(grad_output, whole_input)
    if add_to is None:
        return grad_NO.t().matmul(input_NI)
    kernels, is_fp32 = layers.fused_weight_gradient_mlp_cuda, add_to.dtype == torch.float32
    add = kernels.wgrad_gemm_accum_fp32 if is_fp32 else kernels.wgrad_gemm_accum_fp16
    add(input_NI, grad_NO, add_to)
    return None


def _gathered(saved: Tensor, group: Any) -> Tensor:
    """The layer's whole input; with sequence parallelism (a group) a rank saved its part of it."""
    if group is None:
        return saved
    whole = saved.new_empty([saved.shape[0] * group.size(), *saved.shape[1:]])
    layers.dist_all_gather_func(whole, saved, group=group)
    return whole


class _Embedding(torch.autograd.Function):
    """torch's look-up, whose backward offers the table's gradient."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, weight_VI: Tensor) -> Tensor:
        ctx.save_for_backward(tokens, weight_VI)
        return torch.nn.functional.embedding(tokens, weight_VI)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[None, Tensor | None]:
        tokens, weight_VI = ctx.saved_tensors

        def gradient() -> Tensor:
            return torch.ops.aten.embedding_dense_backward(grad_output, tokens, weight_VI.shape[0], -1, False)

        return None, None if _offer(weight_VI, gradient) else gradient()


class _Functional:
    """torch.nn.functional as Megatron's layers see it."""

    embedding = staticmethod(_Embedding.apply)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.nn.functional, name)
