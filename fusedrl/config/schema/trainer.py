"""The run: how long, how often what is done, and where results go."""

from dataclasses import dataclass

from fusedrl.config.schema.fields import key

WEEK_S = 7 * 86400.0  # a 32-bit timer of milliseconds ends after 24 days
LOGGERS = ("console", "jsonl", "tensorboard", "wandb", "mlflow")
RESUME_MODES = ("auto", "disable", "resume_path")


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
        help="Where metrics go; metrics.jsonl is always written. wandb and mlflow need the extras of these names",
        choices=LOGGERS,
    )
    seed: int = key(0, help="Seed of new weights, of sampling and of mini-batches", at_least=0)
    timeout_s: float = key(
        600.0,
        help="Seconds a rank waits for another before the run ends with an error; a week at most",
        above=0,
        at_most=WEEK_S,
    )
    max_skipped_updates: int | None = key(
        10,
        help="Updates of a model in a row that may be skipped, their gradients not being finite, before the run ends "
        "with an error; null: any number",
        at_least=1,
    )
    save_freq: int = key(-1, help="Save the run's state every so many steps; -1: at the end only", at_least=-1)
    async_save: bool = key(True, help="Train on while a state is written; it is copied in memory first")
    max_ckpt_to_keep: int | None = key(
        None, help="Saved steps that stay, the last ones; null: all. Older ones go, their exports included", at_least=1
    )
    resume_mode: str = key(
        "auto",
        help="auto: go on from the run's last good state, if there is one; disable: start afresh; "
        "resume_path: go on from resume_from_path",
        choices=RESUME_MODES,
    )
    resume_from_path: str | None = key(None, help="With resume_path: a global_step_N folder, of this run or another")


@dataclass(frozen=True)
class PPOTrainerConfig(BaseTrainerConfig):
    test_freq: int = key(-1, help="Validate every so many steps; -1: never", at_least=-1)
    export_hf: bool = key(True, help="Export Hugging Face folders with every save; false: with the last one only")
    val_before_train: bool = key(True, help="Validate before the first step")
    max_validation_to_keep: int | None = key(
        20, help="Validations whose samples stay in validation/, the last ones; null: all", at_least=1
    )
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
