"""PPO runs that give memory back while they generate, on gloo ranks."""

from typing import Any
from unittest.mock import patch

from fusedrl.config.load import load
from fusedrl.models.optimizer_state import kept
from fusedrl.rollout.megatron import MegatronEngine
from fusedrl.trainers.roles import Role, TrainedRole
from fusedrl.trainers.setup_ppo import ppo_run
from tests.fusedrl.trainers.checkpoint_jobs import numbers, state_of


def compared(*, runs: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    return {name: _run(overrides) for name, overrides in runs.items()}


def _run(overrides: list[str]) -> dict[str, Any]:
    """Metrics and models of a run; the bytes of its models in each step of its engine, and after the run."""
    with ppo_run(load("ppo", overrides), command=["test"]) as (ppo, steps):
        step, during = MegatronEngine.step, []
        roles = [role for role in (ppo.actor, ppo.critic, ppo.reference, ppo.reward) if role is not None]

        def watched(engine: MegatronEngine) -> Any:
            during.append(_held(roles))
            return step(engine)

        with patch.object(MegatronEngine, "step", watched):
            history = ppo.run(steps=steps)
        trained = [role for role in roles if isinstance(role, TrainedRole)]
        return {
            "metrics": [numbers(each) for each in history],
            "all": history,
            "state": {role.name: state_of(role) for role in trained},
            "during": during,
            "after": _held(roles),
        }


def _held(roles: list[Role]) -> dict[str, int]:
    found: dict[str, int] = {}
    for role in roles:
        parameters = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in role.module.parameters()}
        found[f"{role.name} params"] = sum(parameters.values())
        if not isinstance(role, TrainedRole):
            continue
        buffers = [buffer for ddp in role.trained.ddp for buffer in ddp.buffers]
        found[f"{role.name} grads"] = sum(buffer.grad_data.untyped_storage().nbytes() for buffer in buffers)
        moments = [tensor for share in kept(role.trained).values() for tensor in share.moments.values()]
        found[f"{role.name} optimizer"] = sum(each.untyped_storage().nbytes() for each in moments)
    return found
