"""What `-m fusedrl.evaluate` and `-m fusedrl.generate` share: a model that only generates, its engine, the run."""

from dataclasses import dataclass

from fusedrl.config.schema.fields import REQUIRED, key
from fusedrl.config.schema.parallel import LayersConfig
from fusedrl.config.schema.policy import EngineConfig
from fusedrl.config.schema.trainer import RESUME_MODES, WEEK_S


@dataclass(frozen=True)
class GeneratingModelConfig(LayersConfig):
    path: str = key(REQUIRED, help="Hugging Face folder (config.json, safetensors, tokenizer) of the model")


@dataclass(frozen=True)
class GenerationConfig(EngineConfig):
    temperature: float = key(1.0, help="Sampling temperature; 0: the likeliest token", at_least=0)
    do_sample: bool | None = key(
        None, help="false: the likeliest token, whatever the temperature; null: sample where the temperature is above 0"
    )


@dataclass(frozen=True)
class EvaluationSamplingConfig(GenerationConfig):
    """Greedy, unless told otherwise, as PPO's validation."""

    n: int = key(1, help="Responses per prompt; more than 1 need sampling", at_least=1)
    temperature: float = key(0.0, help="Sampling temperature; 0: the likeliest token", at_least=0)


@dataclass(frozen=True)
class RunConfig:
    """A run without training."""

    experiment_name: str = key("default", help="Name of the run")
    default_local_dir: str = key("runs/${trainer.experiment_name}", help="Folder of the run")
    seed: int = key(0, help="Seed of sampling", at_least=0)
    timeout_s: float = key(
        600.0,
        help="Seconds a rank waits for another before the run ends with an error; a week at most",
        above=0,
        at_most=WEEK_S,
    )


@dataclass(frozen=True)
class ResumableRunConfig(RunConfig):
    resume_mode: str = key(
        "auto",
        help="auto: go on with the responses that an interrupted run of the same request left; disable: start afresh",
        choices=RESUME_MODES[:2],
    )
