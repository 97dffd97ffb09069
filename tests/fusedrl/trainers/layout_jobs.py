"""Models on some of the ranks, in layouts of their own for each call."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from fusedrl.config.load import load
from fusedrl.trainers.ppo import PPO
from fusedrl.trainers.reading import Reading
from fusedrl.trainers.setup_ppo import ppo_run
from tests.distributed import trainer_jobs

Ranks = tuple[str | None, str | None]


def trained(folder: str, *, runs: Sequence[tuple[int, Ranks, str]]) -> list[dict[str, Any]]:
    """Training of actor and critic for each (pp, their ranks, schedule.method)."""
    options: dict[str, Any] = {"tp": 1, "actor_micro": 1, "critic_micro": 2}
    return [trainer_jobs.train(folder, pp=pp, ranks=ranks, method=method, **options) for pp, ranks, method in runs]


def generated(folder: str, *, runs: Sequence[dict[str, Any]]) -> list[list[list[int]]]:
    return [trainer_jobs.generate(folder, **run) for run in runs]


def read(*, overrides: list[str]) -> dict[str, Any]:
    """What a step's inference gives in layouts of its own and in the trained ones, after an update; bytes of the models
    that are lent: before, while and after they are."""
    with ppo_run(load("ppo", overrides), command=["test"]) as (ppo, _):
        ppo.step(1)
        samples = ppo.samples_of(ppo.generate(ppo.rows(), step=2))
        own, lent = ppo.infer(samples), ppo.reading.models
        held = {name: [_bytes(each.role.module)] for name, each in lent.items()}
        with ppo.reading.lent(lent):
            for name, each in lent.items():
                held[name].append(_bytes(each.role.module))
        for name, each in lent.items():
            held[name].append(_bytes(each.role.module))
        return {"own": own, "trained": _as_trained(ppo, samples), "held": held}


def _as_trained(ppo: PPO, samples: Any) -> dict[str, Tensor]:
    """With the frozen models there and no copies."""
    for name, each in ppo.reading.models.items():
        if name in ("ref", "reward"):
            each.take()
    ppo.reading = Reading()
    return ppo.infer(samples)


def _bytes(module: nn.Module) -> int:
    return sum(parameter.untyped_storage().nbytes() for parameter in module.parameters())
