"""The critic and the sources of reward."""

from dataclasses import dataclass

from fusedrl.config.schema.fields import REQUIRED, group, key, token_budget
from fusedrl.config.schema.parallel import (
    CriticOptimConfig,
    InferenceMegatronConfig,
    LearningMegatronConfig,
    ReadingMegatronConfig,
)
from fusedrl.config.schema.policy import LOSS_AGG_MODES


@dataclass(frozen=True)
class CriticModelConfig:
    path: str = key(
        REQUIRED, help="Hugging Face folder the critic starts from; its value head is new unless saved there"
    )


@dataclass(frozen=True)
class CriticConfig:
    model: CriticModelConfig = group(CriticModelConfig, help="The critic's weights")
    ppo_mini_batch_size: int = key(256, help="SAMPLES of one optimizer step; equal to the actor's", at_least=1)
    ppo_micro_batch_size_per_gpu: int = key(8, help="Samples of one micro-batch on one data-parallel rank", at_least=1)
    forward_micro_batch_size_per_gpu: int = key(
        8, help="Samples of one micro-batch when values are computed", at_least=1
    )
    use_dynamic_bsz: bool = key(
        False, help="Make micro-batches of both by a budget of tokens instead of a number of samples"
    )
    ppo_max_token_len_per_gpu: int = token_budget(help="With use_dynamic_bsz, in training")
    forward_max_token_len_per_gpu: int = token_budget(help="With use_dynamic_bsz, when values are computed")
    ppo_epochs: int = key(1, help="Passes over the samples of a step; equal to the actor's", at_least=1)
    cliprange_value: float = key(0.5, help="Clip range of the value loss", above=0)
    loss_agg_mode: str = key("token-mean", help="How the loss of tokens becomes one number", choices=LOSS_AGG_MODES)
    optim: CriticOptimConfig = group(CriticOptimConfig, help="The critic's optimizer")
    megatron: LearningMegatronConfig = group(
        LearningMegatronConfig,
        help="The critic's layout; that of the actor unless given, any that fits the ranks may share its passes",
    )
    inference_megatron: InferenceMegatronConfig = group(
        InferenceMegatronConfig, help="The critic's layout where values are computed"
    )


@dataclass(frozen=True)
class RewardModelPathConfig:
    path: str | None = key(None, help="Hugging Face folder of the reward model (a decoder with a head of one output)")
    input_tokenizer: str | None = key(
        None,
        help="Folder of the tokenizer that samples come in: null finds out whether the reward model's is another, and "
        "then gives it samples as text, tokenised again; actor_rollout_ref.model.path does so always",
    )


@dataclass(frozen=True)
class RewardModelConfig:
    enable: bool = key(False, help="Score responses with a reward model; added to the reward function's score")
    weight: float = key(1.0, help="Weight of its score in that sum")
    model: RewardModelPathConfig = group(RewardModelPathConfig, help="The reward model's weights")
    micro_batch_size_per_gpu: int = key(8, help="Samples of one micro-batch of the reward model", at_least=1)
    use_dynamic_bsz: bool = key(False, help="A budget of tokens instead of a number of samples")
    forward_max_token_len_per_gpu: int = token_budget(help="With use_dynamic_bsz")
    megatron: ReadingMegatronConfig = group(ReadingMegatronConfig, help="The reward model's layout")


@dataclass(frozen=True)
class CustomRewardFunctionConfig:
    """A user's Python function: compute_score(data_source, solution_str, ground_truth, extra_info=None) -> float."""

    path: str | None = key(
        None,
        help="Python file that holds the function, or http://HOST:PORT/PATH of a server that is asked instead "
        "(docs/rewards.md); null: the task's own verifier",
    )
    name: str = key(
        "compute_score", help="Name of the function in that file; full_marks: the task's verifier without part marks"
    )
    weights: dict[str, float] = key(
        {}, help="Several functions of that file and their weights, such as {right: 1, format: 0.2}; {}: name alone"
    )
    retries: int = key(2, help="Further attempts to reach a server that fails, within timeout_s", at_least=0)
    timeout_s: float = key(10.0, help="Seconds one call may take before it is stopped and counted", above=0)
    num_workers: int = key(2, help="Worker processes that call the function", at_least=1)
    default_score: float = key(0.0, help="Score of a response whose call failed or overran")
