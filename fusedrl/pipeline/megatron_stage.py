"""Megatron-Core's GPTModel as a pipeline stage; the one file of this folder that knows Megatron-Core.

A GPTModel built for a stage takes tokens on its first stage and `set_input_tensor` elsewhere; positions are needed on
every stage (rotary embeddings). What passes between stages is [T, B, H], with sequence parallelism [T / tp, B, H]; T is
then padded on the right to a multiple of tp, which no token before sees, and outputs are cut to T. On context-parallel
ranks T is a share of the row, packed rows are one row of all tokens (fusedrl.pipeline.tokens), and so are outputs. Both
ends of a message know its shape.

Rows are padded on the right, so the mask is the plain causal one. The local attention of the CPU builds its own mask
on the current CUDA device, so it is given one here; on CUDA none is passed and the kernels' causal mode serves. Neither
does the attention of shared or packed rows (fusedrl.models.attention) take a mask.

Weight gradients can be put off (split backwards): those of Megatron's own layers by megatron_patches.weight_gradients,
those of Transformer Engine's by its `delay_wgrad_compute`. Where whole layers are computed again in the backward they
cannot: between B and W a stage would hold what recomputation saves, and no plan counts that.

Shapes: B rows, T tokens, H hidden size.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from megatron.core.packed_seq_params import PackedSeqParams
from torch import Tensor

from fusedrl.models.stages import stages_of
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.placement import place_stages
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.postponed import postpone
from fusedrl.pipeline.stage import PipelineModel
from fusedrl.pipeline.tokens import PackedRows, SharedRows, TokenForm, WholeRows
from megatron_patches import weight_gradients

AUXILIARY = ("moe_aux_loss_coeff", "moe_z_loss_coeff", "mtp_num_layers")
TE_MODULE = "megatron.core.extensions.transformer_engine"


class MegatronStage:
    """A GPTModel called the way the executor calls stages. tokens: how rows lie in it."""

    def __init__(self, module: Any, *, tokens: TokenForm) -> None:
        self._module, self._tokens = module, tokens

    def __call__(self, microbatch: MicroBatch, received: Tensor | None) -> Tensor:
        self._module.set_input_tensor(received)
        output = self._module(
            input_ids=self._tokens.enter(microbatch.tokens_BT, microbatch),
            position_ids=self._tokens.enter(microbatch.position_ids_BT(), microbatch),
            attention_mask=self._mask(microbatch),
            packed_seq_params=self._packed(microbatch),
        )
        self._module.set_input_tensor(None)  # or the module would keep the last input alive until its next call
        return self._tokens.leave(output, microbatch) if self._module.post_process else output

    def _mask(self, microbatch: MicroBatch) -> Tensor | None:
        if not isinstance(self._tokens, WholeRows):
            return None
        return causal_mask(self._tokens.shape(microbatch)[1], microbatch.tokens_BT.device)

    def _packed(self, microbatch: MicroBatch) -> PackedSeqParams | None:
        if not isinstance(self._tokens, PackedRows):
            return None
        ends, longest = self._tokens.ends(microbatch), self._tokens.longest(microbatch)
        return PackedSeqParams(
            qkv_format="thd", cu_seqlens_q=ends, cu_seqlens_kv=ends, max_seqlen_q=longest, max_seqlen_kv=longest
        )


@lru_cache(maxsize=64)
def _mask(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).triu(1)[None, None]


def causal_mask(length: int, device: torch.device) -> Tensor | None:
    """True where attention must not look, [1, 1, T, T]; None on CUDA."""
    return _mask(length) if device.type == "cpu" else None


def columns_of(layout: Layout, ranks: Sequence[int] | None = None) -> tuple[tuple[int, ...], ...]:
    """World ranks by pipeline column, for each (dp, cp, tp) coordinate, tp fastest. ranks: where the layout lies, by
    default on the first ranks."""
    on = range(layout.world) if ranks is None else ranks
    return tuple(
        tuple(on[layout.rank(tp_i=tp, cp_i=cp, dp_i=dp, pp_i=pp)] for pp in range(layout.pp))
        for dp in range(layout.dp)
        for cp in range(layout.cp)
        for tp in range(layout.tp)
    )


def megatron_model(
    name: str,
    module: Any,
    *,
    layout: Layout,
    rank: int,
    ranks: Sequence[int] | None = None,
    reverse: bool = False,
    placement: str = "line",
) -> PipelineModel:
    """The stages of a model that this rank holds (fusedrl.models.stages). `reverse`: its pipeline runs from the last
    column to the first; `placement`: one of fusedrl.parallel.placement.SHAPES; `ranks`: of the job, where the layout
    lies."""
    columns, modules = place_stages(layout.pp, shape=placement, reverse=reverse), stages_of(module)
    here = rank if ranks is None else list(ranks).index(rank)
    held = [stage for stage, column in enumerate(columns) if column == layout.coords(here)[2]]
    _check_built(name, modules, held=held, stages=len(columns), rank=rank)
    config = modules[0].config
    weight_gradients.connect(lambda parameter, gradient: postpone(gradient, parameter=parameter))
    te_layers = {stage: _te_layers(each) for stage, each in zip(held, modules, strict=True)}
    own_way = any(te_layers.values())
    shares = layout.tp if config.sequence_parallel else 1
    tokens = _token_form(modules[0], cp=layout.cp, shares=shares)
    delays = own_way and config.delay_wgrad_compute
    return PipelineModel(
        name=name,
        placement=columns,
        columns=columns_of(layout, ranks),
        tp=layout.tp,
        cp=layout.cp,
        tokens=tokens,
        stages={stage: MegatronStage(each, tokens=tokens) for stage, each in zip(held, modules, strict=True)},
        message_shape=_message_shape(config, tokens=tokens, shares=shares),
        dtype=config.pipeline_dtype or config.params_dtype,
        device=next(modules[0].parameters()).device,
        modules=tuple(modules),
        before_pass=partial(_before_pass, modules),
        splits=(not own_way or delays) and config.recompute_granularity != "full",
        delayed={stage: partial(_compute_delayed, layers) for stage, layers in te_layers.items()} if delays else {},
    )


def absent_model(
    name: str,
    *,
    layout: Layout,
    ranks: Sequence[int],
    device: torch.device,
    reverse: bool = False,
    placement: str = "line",
) -> PipelineModel:
    """A model as a rank knows it that holds no part of it."""
    return PipelineModel(
        name=name,
        placement=place_stages(layout.pp, shape=placement, reverse=reverse),
        columns=columns_of(layout, ranks),
        tp=layout.tp,
        cp=layout.cp,
        stages={},
        message_shape=lambda batch: (),
        device=device,
    )


def _check_built(name: str, modules: list[Any], *, held: list[int], stages: int, rank: int) -> None:
    """Each module is what its stage needs."""
    if len(modules) != len(held):
        raise ValueError(f"model {name}: rank {rank} holds stages {held} of {stages}, {len(modules)} were built")
    for stage, module in zip(held, modules, strict=True):
        refuse_unsupported(name, module.config, trains=getattr(module, "training", True))
        if (module.pre_process, module.post_process) != (stage == 0, stage == stages - 1):
            built = f"pre_process={module.pre_process}, post_process={module.post_process}"
            raise ValueError(
                f"model {name}: rank {rank} holds stage {stage} of {stages}, its module was built with {built}"
            )


def _before_pass(modules: list[Any]) -> None:
    for module in modules:
        module.set_is_first_microbatch()


def _te_layers(module: Any) -> list[Any]:
    """Transformer Engine's layers with weights, in the sequence of a backward.

    They compute both gradients at once, or (config.delay_wgrad_compute, a matter of how they are built) always put the
    weight's off until backward_dw(). This way has not run yet: it needs a GPU."""
    layers = [each for each in module.modules() if type(each).__module__ == TE_MODULE and hasattr(each, "backward_dw")]
    return layers[::-1]


def _compute_delayed(layers: list[Any]) -> None:
    for layer in layers:
        layer.backward_dw()


def _token_form(module: Any, *, cp: int, shares: int) -> TokenForm:
    """shares: ranks that share the tokens for sequence parallelism."""
    if cp > 1:
        return SharedRows(module.pg_collection.cp, multiple=2 * cp * shares)
    return PackedRows(multiple=shares) if module.packed else WholeRows(multiple=shares)


def _message_shape(config: Any, *, tokens: TokenForm, shares: int) -> Callable[[MicroBatch], tuple[int, ...]]:
    def shape(batch: MicroBatch) -> tuple[int, ...]:
        rows, length = tokens.shape(batch)
        return length // shares, rows, config.hidden_size

    return shape


def refuse_unsupported(name: str, config: Any, *, trains: bool = True) -> None:
    """Megatron-Core keeps the scale of auxiliary losses per process and reads it during backward: with interleaved
    models the last forward of either decides it. So those losses, and multi-token prediction, are refused. Experts
    in training want the tokens shared where ranks share the heads, or each rank would route all of them."""
    found = {key: getattr(config, key, None) for key in AUXILIARY}
    for key, value in found.items():
        if value:
            reason = "auxiliary losses share one scale a process in Megatron-Core"
            raise ValueError(f"model {name}: {key}={value} cannot run in a fused pass: {reason}; use none")
    tp = config.tensor_model_parallel_size
    if trains and getattr(config, "num_moe_experts", None) and tp > 1 and not config.sequence_parallel:
        raise ValueError(
            f"model {name}: sequence_parallel=false with tensor_model_parallel_size={tp}: layers with experts share "
            "tokens between those ranks; set sequence_parallel to true"
        )
