"""The run: how long, how often what is done, and where results go."""

from dataclasses import dataclass

from fusedrl.config.schema.fields import key

WEEK_S = 7 * 86400.0  # a 32-bit timer of milliseconds ends after 24 days
LOGGERS = ("console", "tensorboard")


@dataclass(frozen=True)
class BaseTrainerConfig:
    """What all commands share."""

    total_training_steps: int | None = key(None, help="Steps of the run; null: total_epochs", at_least=1)
    total_epochs: int = key(1, help="Passes over the training rows, where total_training_steps is null", at_least=1)
    project_name: str = key("fusedrl", help="Name of the group of runs this one belongs to")
    experiment_name: str = key("default", help="Name of the run")
    default_local_dir: str = key("runs/${trainer.experiment_name}", help="Folder of the run")
    logger: list[str] = key(
        ["console", "tensorboard"],
        help="Where metrics go besides metrics.jsonl, which is always written",
        choices=LOGGERS,
    )
    seed: int = key(0, help="Seed of new weights, of sampling and of mini-batches", at_least=0)
    timeout_s: float = key(
        600.0,
        help="Seconds a rank waits for another before the run ends with an error; a week at most",
        above=0,
        at_most=WEEK_S,
    )


@dataclass(frozen=True)
class PPOTrainerConfig(BaseTrainerConfig):
    test_freq: int = key(-1, help="Validate every so many steps; -1: never", at_least=-1)
    save_freq: int = key(-1, help="Save every so many steps; -1: at the end only", at_least=-1)
    val_before_train: bool = key(True, help="Validate before the first step")
    critic_warmup: int = key(0, help="First steps in which only the critic is trained", at_least=0)
    profile_steps: list[int] = key(
        [],
        help="Steps whose updates are traced, memory included, for Perfetto: trace_stepN.json in the run's folder",
        at_least=1,
    )


@dataclass(frozen=True)
class OneModelTrainerConfig(BaseTrainerConfig):
    test_freq: int = key(
        -1, help="Validate every so many steps; -1: only after the last, where there are validation rows", at_least=-1
    )
