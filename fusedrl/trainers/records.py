"""A run's folder and logger: rank 0 makes and writes them, other ranks get a logger without sinks."""

from collections.abc import Sequence
from pathlib import Path

from fusedrl.config.check_layout import layouts
from fusedrl.config.derive import Sizes, describe, to_dict
from fusedrl.config.load import to_yaml
from fusedrl.config.schema import Config, MegatronConfig, OneModelConfig, PPOConfig
from fusedrl.models.implementation import choose
from fusedrl.parallel.team import leads
from fusedrl.telemetry.jsonl import read_lines
from fusedrl.telemetry.libraries import libraries_line
from fusedrl.telemetry.logger import MetricsLogger, open_logger
from fusedrl.telemetry.run_folder import open_run_folder
from fusedrl.trainers.checkpointing import Start
from fusedrl.trainers.roles import implementation_of


def open_records(config: Config, *, sizes: Sizes, steps: int, command: Sequence[str], start: Start) -> MetricsLogger:
    """Opens the folder, saves what the run runs with, and tells the user the device and the derived sizes.

    A run that goes on from a state of its own folder goes on with its records; steps after it are taken out of them.
    """
    if not leads():
        return MetricsLogger()
    path = Path(config.trainer.default_local_dir)
    keeps = start.step if start.own else None
    folder = open_run_folder(
        path, config_yaml=to_yaml(config), sizes=to_dict(sizes), command=command, resumed_from=keeps
    )
    later = (
        0
        if keeps is None or not folder.metrics.exists()
        else sum(line["step"] > keeps for line in read_lines(folder.metrics))
    )
    logger = open_logger(config.trainer, folder, total_steps=steps, resumed_from=start.step or None)
    if later:
        logger.say(f"{later} rows of {folder.metrics} are removed: the steps after {keeps} run again")
    for line in [libraries_line(), *implementation_lines(config), *describe(sizes)]:
        logger.say(line)
    return logger


def implementation_lines(config: Config) -> list[str]:
    """What each model is made of; one line where that is the same for all."""
    models = {"model": config.megatron} if isinstance(config, OneModelConfig) else _by_role(config)
    lines = {role: choose(implementation_of(megatron), key=role).line() for role, megatron in models.items()}
    alike = len(set(lines.values())) == 1
    return list(lines.values())[:1] if alike else [f"{role}: {line}" for role, line in lines.items()]


def _by_role(config: PPOConfig) -> dict[str, MegatronConfig]:
    return {role: megatron for role, (_, megatron) in layouts(config).items()}
