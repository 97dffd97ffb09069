"""Whole PPO runs on gloo ranks, as `-m fusedrl.ppo` does them."""

from typing import Any

from fusedrl.config.load import load
from fusedrl.trainers.setup_ppo import ppo_run


def run_ppo(*, overrides: list[str], steps: int) -> list[dict[str, float]]:
    """Metrics of each step."""
    with ppo_run(load("ppo", overrides), command=["test"]) as (ppo, _):
        return ppo.run(steps=steps)[1:]


def run_all(*, runs: dict[str, list[str]], steps: int) -> dict[str, Any]:
    """Several runs one after the other."""
    return {name: run_ppo(overrides=overrides, steps=steps) for name, overrides in runs.items()}
