"""How a model is laid out over ranks and how it is optimised."""

from dataclasses import dataclass

from fusedrl.config.schema.fields import key


@dataclass(frozen=True)
class LayersConfig:
    """What a model's layers are and compute in."""

    dtype: str = key("float32", help="Data type of the weights and activations", choices=("float32", "bfloat16"))
    transformer_impl: str = key(
        "auto",
        help="Layers: Transformer Engine's, Megatron's local ones, or the former where they work",
        choices=("auto", "local", "transformer_engine"),
    )
    attention_backend: str = key(
        "auto",
        help="Attention of Transformer Engine's layers, the same for all models; local layers: unfused",
        choices=("auto", "flash", "fused", "unfused"),
    )


@dataclass(frozen=True)
class MegatronConfig(LayersConfig):
    """Layout of one model. The data-parallel size is what is left: ranks / (tensor x context x pipeline)."""

    tensor_model_parallel_size: int = key(
        1, help="Ranks that share each layer (tp); divides heads and KV heads", at_least=1
    )
    sequence_parallel: bool = key(
        False, help="Ranks of a tensor-parallel group share the tokens of norms and residuals, to save memory"
    )
    pipeline_model_parallel_size: int = key(
        1, help="Pipeline stages (pp); divides the layers unless told below", at_least=1
    )
    context_parallel_size: int = key(1, help="Ranks that share the tokens of each row (cp), for long rows", at_least=1)
    expert_model_parallel_size: int = key(
        1,
        help="Ranks that share the experts of a layer (ep); 1 alone is supported: each holds a part of all",
        at_least=1,
    )
    use_remove_padding: bool = key(
        False, help="Lay the rows of a micro-batch end to end, without padding; not with context parallelism"
    )
    num_layers_in_first_pipeline_stage: int | None = key(
        None, help="Layers of the model's first stage, the others share the rest evenly; null: even", at_least=1
    )
    num_layers_in_last_pipeline_stage: int | None = key(
        None, help="Layers of the model's last stage, the others share the rest evenly; null: even", at_least=1
    )
    pipeline_layers: list[int] | None = key(
        None, help="Layers of each stage, the first stage first, in place of the two above; null: even", at_least=1
    )
    use_distributed_optimizer: bool = key(False, help="Split the optimizer state over the data-parallel ranks")
    overlap_grad_reduce: bool = key(
        False, help="Sum a model's gradients over its replicas while the other model's work of the update goes on"
    )
    overlap_param_gather: bool = key(
        False,
        help="Send a model's updated parameters to its replicas while other work goes on, until its next forward, "
        "hand-over or export; needs use_distributed_optimizer and overlap_grad_reduce",
    )
    recompute_granularity: str | None = key(
        None,
        help="Activations that a backward computes again, to save memory. selective: attention's scores; full: all but "
        "the inputs of layers; null: none",
        choices=("selective", "full"),
    )
    recompute_method: str = key(
        "uniform",
        help="With full. uniform: the input of every recompute_num_layers layers is kept; block: that of the first "
        "recompute_num_layers layers of each stage, the others keep everything",
        choices=("uniform", "block"),
    )
    recompute_num_layers: int = key(1, help="With full: layers of a unit (uniform) or of a stage (block)", at_least=1)
    gradient_accumulation_fusion: bool | None = key(
        None, help="Weight gradients added by apex's kernel; null: where it is there"
    )


@dataclass(frozen=True)
class FrozenMegatronConfig(MegatronConfig):
    """Of one of several models of a job, which is not needed while samples are generated."""

    ranks: str | None = key(
        None, help="Ranks that the model lies on, such as 0-3,8; other models may lie on others; null: all"
    )
    param_offload: bool = key(False, help="Parameters wait in CPU memory while samples are generated")


@dataclass(frozen=True)
class ReadingMegatronConfig(FrozenMegatronConfig):
    """Of a frozen model."""

    resident: bool = key(
        True, help="false: parameters wait in CPU memory and come for the passes that read them, and for these alone"
    )


@dataclass(frozen=True)
class InferenceMegatronConfig:
    """A second copy of a model that learns, which reads samples in a layout of its own."""

    enable: bool = key(False, help="Samples are read by a copy in this layout; false: in the layout that trains")
    ranks: str | None = key(None, help="Ranks that the copy lies on, such as 0-3,8; null: all")
    tensor_model_parallel_size: int = key(1, help="Ranks that share each layer", at_least=1)
    pipeline_model_parallel_size: int = key(1, help="Pipeline stages, with equally many layers", at_least=1)
    context_parallel_size: int = key(1, help="Ranks that share the tokens of each row", at_least=1)
    resident: bool = key(False, help="Keep the copy's memory between its passes; false: give it back after each")


@dataclass(frozen=True)
class LearningMegatronConfig(FrozenMegatronConfig):
    grad_offload: bool = key(False, help="Gradients' memory is given back while samples are generated")
    optimizer_offload: bool = key(False, help="The optimizer's state waits in CPU memory while samples are generated")


@dataclass(frozen=True)
class OptimConfig:
    """Megatron's Adam with its learning-rate schedule. Steps here are optimizer steps (mini-batches)."""

    lr: float = key(1e-6, help="Peak learning rate", above=0)
    min_lr: float = key(0.0, help="Learning rate at the end of the decay", at_least=0)
    lr_warmup_steps: int = key(0, help="Optimizer steps of linear warm-up from 0", at_least=0)
    lr_decay_style: str = key(
        "constant", help="Shape of the decay after the warm-up", choices=("constant", "linear", "cosine")
    )
    lr_decay_steps: int | None = key(
        None, help="Optimizer steps until min_lr is reached; null: the whole run", at_least=1
    )
    weight_decay: float = key(0.01, help="Decoupled weight decay", at_least=0)
    clip_grad: float = key(1.0, help="Largest global gradient norm; 0 switches clipping off", at_least=0)
    betas: list[float] = key([0.9, 0.999], help="Adam's two decay rates", at_least=0, below=1)
    eps: float = key(1e-8, help="Adam's epsilon", above=0)


@dataclass(frozen=True)
class CriticOptimConfig(OptimConfig):
    """The critic learns faster: verl's default of 1e-5."""

    lr: float = key(1e-5, help="Peak learning rate", above=0)
