"""A run's folder and logger: rank 0 makes and writes them, other ranks get a logger without sinks."""

from collections.abc import Sequence
from pathlib import Path

import torch.distributed as dist

from fusedrl.config.derive import PPOSizes, SFTSizes, describe, to_dict
from fusedrl.config.load import to_yaml
from fusedrl.config.schema import Config
from fusedrl.telemetry.libraries import libraries_line
from fusedrl.telemetry.logger import MetricsLogger, open_logger
from fusedrl.telemetry.run_folder import open_run_folder


def open_records(config: Config, *, sizes: PPOSizes | SFTSizes, steps: int, command: Sequence[str]) -> MetricsLogger:
    """Opens the folder, saves what the run runs with, and tells the user the device and the derived sizes."""
    if dist.get_rank() != 0:
        return MetricsLogger()
    path = Path(config.trainer.default_local_dir)
    folder = open_run_folder(path, config_yaml=to_yaml(config), sizes=to_dict(sizes), command=command)
    logger = open_logger(config.trainer, folder, total_steps=steps)
    for line in [libraries_line(), *describe(sizes)]:
        logger.say(line)
    return logger
