"""Build this rank's stage of a model as a Megatron GPTModel, with a config of its own and weights from a seed.

    model = build_model(arch, groups, head="lm", dtype=torch.float32, seed=1)
    load_hf(model, folder)                                  # instead of the seed's weights

What we add to the GPTModel: `model.arch`, `model.head` ("lm" or "value"), `model.padded_vocab`, and `model.packed`
where rows lie end to end. Transformer Engine's layers or Megatron's local ones: implementation.py. Dropout is 0 always:
RLHF wants the same log-probabilities in generation, scoring and training.
"""

from typing import Any, Literal

import torch
from megatron.core.models.gpt import GPTModel
from megatron.core.tensor_parallel import random as tp_random
from megatron.core.tensor_parallel import set_tensor_model_parallel_attributes
from megatron.core.transformer.transformer_config import TransformerConfig

from fusedrl.models.architecture import Architecture, check_layout, pad_vocab
from fusedrl.models.fill import fill, rules_of
from fusedrl.models.implementation import AUTO, Chosen, Implementation, check_rows, choose
from fusedrl.models.layer_spec import expert_settings, layer_spec
from fusedrl.models.options import PLAIN, Recompute, StageOptions
from fusedrl.models.random_weights import random_source
from fusedrl.models.rope import inverse_frequencies, softmax_scale
from fusedrl.models.value_head import ValueHead
from fusedrl.models.weights import PARTITION_DIM
from fusedrl.parallel import groups as parallel_groups
from fusedrl.parallel.layout import Layout
from megatron_patches import attention_buffer, experts

Head = Literal["lm", "value"]


def build_model(
    arch: Architecture,
    groups: parallel_groups.ProcessGroupCollection,
    *,
    head: Head = "lm",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    padded_vocab: int | None = None,
    delay_weight_gradients: bool = False,
    implementation: Implementation = AUTO,
    options: StageOptions = PLAIN,
    key: str = "model",
) -> GPTModel:
    """This rank's stage, weights drawn from `seed` (the same whole model in every layout).

    padded_vocab: rows of the embedding, where another layout's padding must be met (weight hand-over between tensor
    parallel sizes); by default the vocabulary is rounded up to a multiple of 128 x tp.
    delay_weight_gradients: for split backwards; Transformer Engine's layers must be built for it, Megatron's own can
    always split.
    implementation: which libraries' layers; what is asked for must be there.
    options: how many layers each stage has, what is computed again in the backward.
    key: the config key to name where the groups cannot hold the model.
    """
    tp, pp, cp = groups.tp.size(), groups.pp.size(), groups.cp.size()
    check_layout(arch, Layout(tp=tp, pp=pp if options.layers.even else 1), key=key)
    layers = _layers(arch, options, stages=pp, key=key)
    if options.packed and cp > 1:
        raise ValueError(
            f"{key}.use_remove_padding=true with {key}.context_parallel_size={cp}: ranks share padded rows; use one"
        )
    padded = padded_vocab or pad_vocab(arch.vocab_size, tp=tp)
    if padded < arch.vocab_size or padded % tp:
        raise ValueError(
            f"{key}: padded_vocab={padded} must hold {arch.vocab_size} tokens and be a multiple of tp={tp}"
        )
    chosen = choose(implementation, key=key, experts=arch.experts is not None)
    check_rows(chosen, cp=cp, packed=options.packed, key=key)
    _ensure_rng_tracker(groups.tp.rank())
    attention_buffer.apply()  # on CUDA, too: local attention takes its scratch from there
    if arch.experts:
        experts.define_kernel()
    config = transformer_config(arch, tp=tp, pp=pp, cp=cp, dtype=dtype, chosen=chosen, options=options)
    # set after its own check, which allows it with one schedule of Megatron's alone
    config.delay_wgrad_compute = delay_weight_gradients and chosen.transformer_engine
    before = sum(layers[: groups.pp.rank()])
    mine = range(before, before + layers[groups.pp.rank()])
    if not options.layers.even:
        config.pipeline_model_parallel_layout = _ThisStage(len(mine), before)
    spec = layer_spec(arch, chosen, config=config, layers=mine, packed=options.packed)
    model = _gpt_model(arch, groups, config=config, spec=spec, head=head, padded_vocab=padded)
    model.arch, model.head, model.padded_vocab, model.packed = arch, head, padded, options.packed
    model.to(device=_device(), dtype=dtype)  # torch's RMSNorm does not read params_dtype
    _mark_partitions(model)
    fill(model, random_source(arch, head=head, seed=seed))
    return model


class _ThisStage:
    """What Megatron asks of a `pipeline_model_parallel_layout`. Its own class looks up the stage in global state."""

    def __init__(self, layers: int, offset: int) -> None:
        self._layers, self._offset = layers, offset

    def get_num_layers_to_build(self, layer_type: Any = None, vp_stage: int | None = None) -> int:
        return self._layers

    def get_layer_offset(self, layer_type: Any = None, vp_stage: int | None = None) -> int:
        return self._offset


def _layers(arch: Architecture, options: StageOptions, *, stages: int, key: str) -> tuple[int, ...]:
    """Layers of each stage; what is computed again must fit all of them."""
    try:
        layers = options.layers.over(stages, total=arch.num_layers)
    except ValueError as error:
        raise ValueError(f"{key}.{error}") from error
    for each in layers:
        if options.recompute and (misfit := options.recompute.misfit(each)):
            raise ValueError(f"{key}.{misfit}")
    return layers


def _gpt_model(
    arch: Architecture,
    groups: parallel_groups.ProcessGroupCollection,
    *,
    config: TransformerConfig,
    spec: Any,
    head: Head,
    padded_vocab: int,
) -> GPTModel:
    """Weights not yet filled; rotary frequencies and value head ours."""
    stage, stages = groups.pp.rank(), groups.pp.size()
    model = GPTModel(
        config=config,
        transformer_layer_spec=spec,
        vocab_size=padded_vocab,
        max_sequence_length=arch.max_position,
        pre_process=stage == 0,
        post_process=stage == stages - 1,
        parallel_output=True,
        share_embeddings_and_output_weights=arch.tied and head == "lm",
        position_embedding_type="rope",
        pg_collection=groups,
    )
    model.rotary_pos_emb.inv_freq = inverse_frequencies(arch.rope, head_dim=arch.head_dim)
    if head == "value" and model.post_process:
        shared = groups.tp if config.sequence_parallel else None
        model.output_layer = ValueHead(arch.hidden_size, dtype=config.params_dtype, gather_over=shared)
    return model


def transformer_config(
    arch: Architecture,
    *,
    tp: int,
    pp: int,
    dtype: torch.dtype,
    chosen: Chosen,
    cp: int = 1,
    options: StageOptions = PLAIN,
) -> TransformerConfig:
    """A config that no other model shares: Megatron keeps per-model callbacks and state on it."""
    cuda = torch.cuda.is_available()
    return TransformerConfig(
        num_layers=arch.num_layers,
        hidden_size=arch.hidden_size,
        num_attention_heads=arch.num_heads,
        num_query_groups=arch.num_kv_heads,
        kv_channels=arch.head_dim,
        ffn_hidden_size=arch.ffn_hidden_size,
        normalization="RMSNorm",
        layernorm_epsilon=arch.rms_norm_eps,
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        add_qkv_bias=arch.qkv_bias,
        qk_layernorm=arch.qk_norm,
        softmax_scale=softmax_scale(arch.rope, head_dim=arch.head_dim),
        attention_softmax_in_fp32=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        tensor_model_parallel_size=tp,
        sequence_parallel=options.sequence_parallel and tp > 1,
        pipeline_model_parallel_size=pp,
        context_parallel_size=cp,
        cp_comm_type="p2p",  # Transformer Engine's alone: keys and values go round the ranks
        params_dtype=dtype,
        pipeline_dtype=dtype,
        bf16=dtype == torch.bfloat16,
        fp16=False,
        # Losses come divided by the global token count: gradients are summed over data parallel ranks, never averaged.
        calculate_per_token_loss=True,
        # Weights come from fill(): Megatron's own draw depends on the layout.
        perform_initialization=False,
        use_cpu_initialization=not cuda,
        attention_backend=chosen.attention_backend,
        gradient_accumulation_fusion=chosen.gradient_accumulation_fusion,
        masked_softmax_fusion=False,
        bias_activation_fusion=False,
        bias_dropout_fusion=False,
        apply_rope_fusion=False,
        persist_layer_norm=False,
        **expert_settings(arch.experts),
        **_recompute(options.recompute),
    )


def _recompute(recompute: Recompute | None) -> dict[str, Any]:
    """Megatron's names; selective recomputation is that of attention's core."""
    if recompute is None:
        return {}
    if recompute.granularity == "selective":
        return {"recompute_granularity": "selective", "recompute_modules": ["core_attn"]}
    method = {"recompute_method": recompute.method, "recompute_num_layers": recompute.num_layers}
    return {"recompute_granularity": "full"} | method


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def _ensure_rng_tracker(tp_rank: int) -> None:
    """Attention forks the tracker's "model-parallel-rng" around dropout, p=0 included; one tracker a process.

    Seeding it seeds the default generator too, which is not ours to move: its state is put back.
    """
    tracker = tp_random.get_cuda_rng_tracker()
    if tracker.get_states():
        return
    cpu_state = torch.get_rng_state()
    tp_random.model_parallel_cuda_manual_seed(0, tp_rank=tp_rank, ep_rank=0, etp_rank=0)
    torch.set_rng_state(cpu_state)


def _mark_partitions(model: GPTModel) -> None:
    """Tell Megatron which weights are cut over tensor-parallel ranks: the gradient norm counts the others once.

    Its own initialisation would set these marks; we skip that one.
    """
    for rule, parameter in zip(rules_of(model), model.parameters(), strict=True):
        if rule.kind in PARTITION_DIM and not hasattr(parameter, "tensor_model_parallel"):
            set_tensor_model_parallel_attributes(parameter, True, PARTITION_DIM[rule.kind], 1)
