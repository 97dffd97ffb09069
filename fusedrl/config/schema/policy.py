"""The actor, its generation (rollout) and the reference: keys under `actor_rollout_ref`, as verl groups them."""

from dataclasses import dataclass

from fusedrl.config.schema.fields import REQUIRED, group, key, token_budget
from fusedrl.config.schema.parallel import (
    InferenceMegatronConfig,
    LearningMegatronConfig,
    OptimConfig,
    ReadingMegatronConfig,
)

LOSS_AGG_MODES = ("token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm")
POLICY_LOSSES = ("vanilla", "gspo")
KL_ESTIMATORS = ("kl", "k1", "abs", "mse", "k2", "low_var_kl", "k3")
KL_LOSSES = (*KL_ESTIMATORS, *(f"{name}+" for name in KL_ESTIMATORS))  # "+": the value's own, the gradient k2's
ENGINES = ("megatron", "vllm")
KL_ESTIMATORS_HELP = "kl = k1, mse = k2, low_var_kl = k3"


@dataclass(frozen=True)
class ModelConfig:
    path: str = key(
        REQUIRED, help="Hugging Face folder (config.json, safetensors, tokenizer) of the actor and the reference"
    )
    warm_start: str | None = key(
        None, help="SFT experiment (configs/experiment/sft/NAME.yaml) that is run first where path does not exist yet"
    )
    warm_start_overrides: list[str] = key([], help="Arguments of that run, such as ['trainer.total_training_steps=20']")


@dataclass(frozen=True)
class PolicyLossConfig:
    """Which loss the policy learns by."""

    loss_mode: str = key(
        "vanilla",
        help="vanilla: PPO's, a ratio a token; gspo: one a response (clip ranges near 3e-4, no dual clip)",
        choices=POLICY_LOSSES,
    )


@dataclass(frozen=True)
class PtxConfig:
    """Given answers that the actor learns beside the policy loss (PPO-ptx), so that it does not forget them."""

    coeff: float = key(0.0, help="Weight of their negative log-likelihood in the actor's loss; 0: none", at_least=0)
    files: list[str] = key([], help="jsonl or parquet files of prompt and answer, as those of SFT")
    batch_size: int | None = key(
        None, help="SAMPLES of each optimizer step; null: as many as ppo_mini_batch_size", at_least=1
    )
    max_length: int = key(1024, help="Longest sample (prompt and answer), in tokens", at_least=2)


@dataclass(frozen=True)
class ActorConfig:
    ppo_mini_batch_size: int = key(
        256,
        help="SAMPLES (not prompts, as verl counts) of one optimizer step; divides train_batch_size x n",
        at_least=1,
    )
    ppo_micro_batch_size_per_gpu: int = key(8, help="Samples of one micro-batch on one data-parallel rank", at_least=1)
    use_dynamic_bsz: bool = key(False, help="Make micro-batches by a budget of tokens instead of a number of samples")
    ppo_max_token_len_per_gpu: int = token_budget(help="With use_dynamic_bsz")
    ppo_epochs: int = key(1, help="Passes over the samples of a step", at_least=1)
    shuffle: bool = key(True, help="Draw new mini-batches in each epoch over the samples of a step")
    clip_ratio: float = key(0.2, help="Policy clip range, both sides", above=0, below=1)
    clip_ratio_low: float | None = key(None, help="Lower clip range; null: clip_ratio", above=0, below=1)
    clip_ratio_high: float | None = key(None, help="Upper clip range; null: clip_ratio", above=0)
    clip_ratio_c: float | None = key(
        3.0, help="Dual clip: bound of the ratio where the advantage is negative; null: none", above=1
    )
    policy_loss: PolicyLossConfig = group(PolicyLossConfig, help="The loss of a token")
    loss_agg_mode: str = key("token-mean", help="How the loss of tokens becomes one number", choices=LOSS_AGG_MODES)
    entropy_coeff: float = key(0.0, help="Weight of the entropy bonus")
    ptx: PtxConfig = group(PtxConfig, help="Given answers beside the policy loss")
    use_kl_loss: bool = key(False, help="Add the KL to the reference to the policy loss")
    kl_loss_coef: float = key(0.001, help="Weight of that KL", at_least=0)
    kl_loss_type: str = key(
        "low_var_kl",
        help=f"Estimator of that KL ({KL_ESTIMATORS_HELP}); with + its gradient is k2's",
        choices=KL_LOSSES,
    )
    optim: OptimConfig = group(OptimConfig, help="The actor's optimizer")
    megatron: LearningMegatronConfig = group(LearningMegatronConfig, help="The actor's layout")
    inference_megatron: InferenceMegatronConfig = group(
        InferenceMegatronConfig, help="The actor's layout where log-probabilities are computed"
    )


@dataclass(frozen=True)
class ValidationSamplingConfig:
    """Sampling of the validation prompts. Temperature 0 takes the likeliest token."""

    n: int = key(1, help="Responses per validation prompt; more than 1 need sampling", at_least=1)
    do_sample: bool | None = key(
        None, help="false: the likeliest token, whatever the temperature; null: sample where the temperature is above 0"
    )
    temperature: float = key(0.0, help="0: the likeliest token", at_least=0)
    top_p: float = key(1.0, help="Smallest set of tokens with this probability", above=0, at_most=1)
    top_k: int = key(-1, help="Likeliest tokens to draw from; -1: all", at_least=1, switch=-1)


@dataclass(frozen=True)
class StreamConfig:
    """How samples flow where rollout.inference=instances."""

    unit_size: int = key(
        1, help="Samples that a model reads in one call, neighbours; more than 1 wait for the slowest", at_least=1
    )
    chunk_tokens: int = key(4096, help="Most tokens handed to an idle instance at once", at_least=1)
    address: str | None = key(
        None, help="Where rank 0 listens for the other ranks; null: 127.0.0.1 on one node, else what faces MASTER_ADDR"
    )
    silence_s: float = key(30.0, help="Seconds without a sign of life after which an instance counts as dead", above=0)
    step_s: float = key(86400.0, help="Seconds that the stream of one step may take", above=0)


@dataclass(frozen=True)
class EngineConfig:
    """A generation engine and how it draws tokens: what every command that generates shares."""

    name: str = key("megatron", help="Generation engine: the built-in one, or vLLM (docs/rollout.md)", choices=ENGINES)
    n: int = key(1, help="Responses per prompt", at_least=1)
    temperature: float = key(1.0, help="Sampling temperature; log-probabilities use the same", above=0)
    top_p: float = key(1.0, help="Smallest set of tokens with this probability", above=0, at_most=1)
    top_k: int = key(-1, help="Likeliest tokens to draw from; -1: all", at_least=1, switch=-1)
    tensor_model_parallel_size: int = key(1, help="Ranks that share each layer while generating", at_least=1)
    pipeline_model_parallel_size: int = key(1, help="Stages of the generating model (name=megatron)", at_least=1)
    batches_in_flight: int | None = key(
        None, help="Batches that a generating pipeline works on at once; null: one for each stage", at_least=1
    )
    max_running_requests: int = key(64, help="Samples that one engine generates at once", at_least=1)
    max_total_tokens: int | None = key(
        None,
        help="Tokens in the key-value cache of one engine (name=megatron), shared by its batches in flight; null: what "
        "max_running_requests may need, on a GPU within gpu_memory_utilization",
        at_least=1,
    )
    gpu_memory_utilization: float = key(
        0.5,
        help="Share of a GPU's memory: with name=vllm for weights and cache; with name=megatron, of the memory that is "
        "free once all models are built, for the cache",
        above=0,
        at_most=1,
    )
    enforce_eager: bool = key(False, help="With name=vllm on GPUs: run its model without compiling it and CUDA graphs")


@dataclass(frozen=True)
class RolloutConfig(EngineConfig):
    """Generation for training."""

    ranks: str | None = key(None, help="Ranks that generate, such as 0-3,8; null: all")
    log_prob_micro_batch_size_per_gpu: int = key(
        8, help="Samples of one micro-batch when the actor's log-probabilities are computed", at_least=1
    )
    log_prob_use_dynamic_bsz: bool = key(False, help="A budget of tokens there instead of a number of samples")
    log_prob_max_token_len_per_gpu: int = token_budget(help="With log_prob_use_dynamic_bsz")
    partial_rollout: bool = key(
        False,
        help="End a step's generation once data.train_batch_size prompts are finished; the others go on in the next "
        "step, under its weights (docs/rollout.md)",
    )
    over_sampling_batch_size: int | None = key(
        None,
        help="With partial_rollout: prompts under way at once, carried ones too; more than data.train_batch_size",
        at_least=1,
    )
    val_kwargs: ValidationSamplingConfig = group(ValidationSamplingConfig, help="Sampling in validation")
    inference: str = key(
        "pipeline",
        help="Where samples are read (log-probabilities, values, reference, reward model). pipeline: one fused pass in "
        "the training layouts; instances: on the generation engines, by copies in their layout (docs/stream.md)",
        choices=("pipeline", "instances"),
    )
    streaming: bool = key(
        False,
        help="Finished samples go at once to the reward function and to whichever engine has nothing to generate; "
        "needs inference=instances. false: generation, reward, inference one after the other",
    )
    migration: bool = key(True, help="With streaming: the last few unfinished samples move together, once a step")
    migration_threshold: int | None = key(
        None,
        help="Unfinished samples at which they move (R_t), given with migration_destinations; null: chosen before each "
        "step by simulating it with the lengths and costs seen so far",
        at_least=1,
    )
    migration_destinations: int | None = key(
        None, help="Engines that they move to, those with most of them (m); null: chosen", at_least=1
    )
    migration_by: str = key(
        "cheaper",
        help="How a sample goes on elsewhere. cache: its keys and values travel; prefill: they are computed again; "
        "cheaper: by measured costs",
        choices=("cheaper", "cache", "prefill"),
    )
    offload_copies: bool = key(
        False,
        help="With inference=instances on GPUs: copies of critic, reference and reward model wait in CPU memory",
    )
    stream: StreamConfig = group(StreamConfig, help="With inference=instances")


@dataclass(frozen=True)
class RefConfig:
    log_prob_micro_batch_size_per_gpu: int = key(8, help="Samples of one micro-batch of the reference", at_least=1)
    log_prob_use_dynamic_bsz: bool = key(False, help="A budget of tokens instead of a number of samples")
    log_prob_max_token_len_per_gpu: int = token_budget(help="With log_prob_use_dynamic_bsz")
    megatron: ReadingMegatronConfig = group(ReadingMegatronConfig, help="The reference's layout")


@dataclass(frozen=True)
class ActorRolloutRefConfig:
    model: ModelConfig = group(ModelConfig, help="The policy to train")
    actor: ActorConfig = group(ActorConfig, help="Training of the policy")
    rollout: RolloutConfig = group(RolloutConfig, help="Generation")
    ref: RefConfig = group(RefConfig, help="The frozen reference, built where a KL is used")
