"""All keys of `-m fusedrl.generate`."""

from dataclasses import dataclass

from fusedrl.config.schema.data import GenerateDataConfig
from fusedrl.config.schema.fields import group, key
from fusedrl.config.schema.generation import GeneratingModelConfig, GenerationConfig, ResumableRunConfig


@dataclass(frozen=True)
class ResponsesConfig:
    path: str = key("${trainer.default_local_dir}/responses.jsonl", help="File of the responses, a row a line")
    tokens: bool = key(False, help="Write the token ids of each response, too")
    logprobs: bool = key(False, help="Write the log-probability of each token, too; at the sampling temperature")


@dataclass(frozen=True)
class GenerateConfig:
    model: GeneratingModelConfig = group(GeneratingModelConfig, help="The model that responds")
    rollout: GenerationConfig = group(GenerationConfig, help="Generation")
    data: GenerateDataConfig = group(GenerateDataConfig, help="Prompts")
    output: ResponsesConfig = group(ResponsesConfig, help="What is written")
    trainer: ResumableRunConfig = group(ResumableRunConfig, help="The run")
