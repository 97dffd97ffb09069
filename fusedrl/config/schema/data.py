"""Where prompts come from."""

from dataclasses import dataclass
from typing import Any

from fusedrl.config.schema.fields import group, key, token_budget


@dataclass(frozen=True)
class TaskConfig:
    """A generated task of reasoning-gym, with its own verifier; instead of files."""

    name: str | None = key(None, help="reasoning-gym's name of the task, such as chain_sum; null: read files")
    config: dict[str, Any] = key({}, help="The task's own settings, such as {min_terms: 2}")
    prompt: str = key("{question}", help="Prompt of an entry, over its question and metadata: '{expression}='")
    keep_spaces: bool = key(True, help="Keep the spaces of the prompt; false: shorter prompts for small models")
    chat: bool = key(False, help="The prompt is a user's message, through the tokenizer's chat template")
    system: str | None = key(None, help="With chat: the system's message before it; null: what the template writes")
    train_size: int = key(10000, help="Training prompts to generate", at_least=1)
    val_size: int = key(200, help="Held-out prompts; none of them is a training prompt", at_least=0)
    seed: int = key(0, help="Seed of the generator", at_least=0)


@dataclass(frozen=True)
class BaseDataConfig:
    """What all commands share."""

    train_files: list[str] = key(
        [], help="jsonl or parquet files of training rows, or folders that Dataset.save_to_disk wrote"
    )
    val_files: list[str] = key([], help="Files or folders of validation rows, as train_files")
    task: TaskConfig = group(TaskConfig, help="A generated task instead of files")
    truncation: str = key(
        "error",
        help="A row that is too long: leave it out (counted), stop, or cut it",
        choices=("filter", "error", "truncate"),
    )
    shuffle: bool = key(True, help="A new order in each epoch")
    seed: int = key(0, help="Seed of that order", at_least=0)


@dataclass(frozen=True)
class PPODataConfig(BaseDataConfig):
    train_batch_size: int = key(256, help="PROMPTS of one step; n responses each", at_least=1)
    max_prompt_length: int = key(512, help="Longest prompt, in tokens", at_least=1)
    max_response_length: int = key(512, help="Longest response, in tokens", at_least=1)


@dataclass(frozen=True)
class OneModelDataConfig(BaseDataConfig):
    """What SFT and reward-model training share."""

    train_batch_size: int = key(64, help="Samples of one optimizer step", at_least=1)
    micro_batch_size_per_gpu: int = key(8, help="Samples of one micro-batch on one data-parallel rank", at_least=1)
    use_dynamic_bsz: bool = key(False, help="Make micro-batches by a budget of tokens instead of a number of samples")
    max_token_len_per_gpu: int = token_budget(help="With use_dynamic_bsz")
    max_length: int = key(1024, help="Longest sample (prompt and response), in tokens", at_least=2)


@dataclass(frozen=True)
class SFTDataConfig(OneModelDataConfig):
    """Nothing beyond the base; a class of its own so that keys can be added to one of the two."""


@dataclass(frozen=True)
class RMDataConfig(OneModelDataConfig):
    """A sample is a pair: two rows of tokens, always in the same micro-batch."""

    train_files: list[str] = key([], help="jsonl or parquet files of prompt, chosen, rejected and, optionally, margin")
    val_files: list[str] = key([], help="jsonl or parquet files of held-out pairs")
    rejected: str = key(
        "other",
        help="Wrong answers of a generated task: another row's, or numbers near the right one",
        choices=("other", "near"),
    )
    truncation: str = key(
        "error",
        help="A pair with a response that makes it too long: leave it out (counted), stop, or cut it (the prompt's "
        "beginning for both, then the response's end)",
        choices=("filter", "error", "truncate"),
    )
    train_batch_size: int = key(64, help="PAIRS of one optimizer step", at_least=1)
    micro_batch_size_per_gpu: int = key(8, help="PAIRS of one micro-batch on one data-parallel rank", at_least=1)
    use_dynamic_bsz: bool = key(False, help="Make micro-batches by a budget of tokens instead of a number of pairs")
    max_token_len_per_gpu: int = token_budget(help="With use_dynamic_bsz, two rows a pair")
    max_length: int = key(1024, help="Longest prompt with one of its responses, in tokens", at_least=2)


@dataclass(frozen=True)
class PromptDataConfig:
    """What commands that only generate share; a generated task gives its held-out prompts."""

    task: TaskConfig = group(TaskConfig, help="A generated task instead of files: its held-out prompts")
    truncation: str = key(
        "error",
        help="A prompt that is too long: leave it out (counted), stop, or cut its beginning",
        choices=("filter", "error", "truncate"),
    )
    max_prompt_length: int = key(512, help="Longest prompt, in tokens", at_least=1)
    max_response_length: int = key(512, help="Longest response, in tokens", at_least=1)


@dataclass(frozen=True)
class EvaluateDataConfig(PromptDataConfig):
    val_files: list[str] = key([], help="jsonl or parquet files of rows, as those of PPO")


@dataclass(frozen=True)
class GenerateDataConfig(PromptDataConfig):
    files: list[str] = key([], help="jsonl or parquet files of rows, as those of PPO; prompt alone is needed")
