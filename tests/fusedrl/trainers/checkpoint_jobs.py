"""Runs that are interrupted and go on, on gloo ranks."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from fusedrl import reward_model, sft
from fusedrl.checkpoint.snapshot import owned
from fusedrl.config.load import load
from fusedrl.telemetry.logger import MetricsLogger
from fusedrl.trainers.one_model import OneModelRun
from fusedrl.trainers.roles import TrainedRole
from fusedrl.trainers.setup_ppo import ppo_run

COMMANDS: dict[str, Any] = {"sft": sft, "reward_model": reward_model}
VARYING = ("timing_s/", "timing_per_token_ms/", "perf/", "schedule/")  # what differs between runs that train alike


class Interrupted(Exception):
    """Stands for a kill between two steps."""


@contextmanager
def listening() -> Iterator[list[str]]:
    """What loggers are asked to say, on this rank."""
    told: list[str] = []
    say = MetricsLogger.say
    MetricsLogger.say = lambda self, text: told.append(text)  # type: ignore[method-assign]
    try:
        yield told
    finally:
        MetricsLogger.say = say  # type: ignore[method-assign]


def numbers(metrics: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if not name.startswith(VARYING)}


def state_of(role: TrainedRole) -> dict[str, Tensor]:
    """Values and moments that this rank writes, and all its parameters."""
    found = {f"{s.name} {kind}": t.clone() for s, share in owned(role.trained) for kind, t in share.tensors().items()}
    return found | {name: p.detach().clone() for name, p in role.module.named_parameters()}


def ppo(*, overrides: list[str]) -> dict[str, Any]:
    """Metrics of the steps that were run, each model's state after them, and what was told."""
    with listening() as told, ppo_run(load("ppo", overrides), command=["test"]) as (run, steps):
        history = run.run(steps=steps)
        roles = [run.actor, *([] if run.critic is None else [run.critic])]
        state = {role.name: state_of(role) for role in roles if role.held}
        return {"metrics": [numbers(each) for each in history[1:]], "state": state, "kl": run.kl.coef, "told": told}


def several(*, runs: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    """One after the other, in one job."""
    return {name: ppo(overrides=overrides) for name, overrides in runs.items()}


def one_model(*, command: str, overrides: list[str], stop_after: int | None = None) -> list[str]:
    """A run as the entry point runs it, interrupted after a step; what was told."""
    step, done = OneModelRun.optimize, 0

    def counted(self: OneModelRun, *arguments: Any) -> Any:
        nonlocal done
        if done == stop_after:
            self.checkpoints.saver.finish()  # however slowly its thread writes
            raise Interrupted
        done += 1
        return step(self, *arguments)

    OneModelRun.optimize = counted  # type: ignore[method-assign, assignment]
    try:
        with listening() as told:
            COMMANDS[command].run(load(command, overrides), command=["test"])
    except Interrupted:
        pass
    finally:
        OneModelRun.optimize = step  # type: ignore[method-assign]
    return told
