"""Loggers that need a package beyond the usual ones: missing, they are told before the run starts."""

from collections.abc import Iterator
from importlib.util import find_spec

from fusedrl.config.schema import OneModelConfig, PPOConfig

EXTRAS = ("wandb", "mlflow")  # of trainer.logger: each is its package's and its extra's name


def check_loggers(config: PPOConfig | OneModelConfig) -> Iterator[str]:
    """A line for each logger whose package is not there."""
    for name in dict.fromkeys(config.trainer.logger):
        if name in EXTRAS and find_spec(name) is None:
            yield (
                f"trainer.logger: {name} is not installed: pip install --constraint constraints.txt '.[{name}]', "
                f"or take {name} out of the list"
            )
