"""The trainer's memory that makes room for generation: megatron.{param,grad,optimizer}_offload of each role.

    hand-over -> offload -> generation -> reading (parameters come back) -> training (all comes back)

With rollout.inference=instances samples are read on the generation engines, so all stays away until training.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from fusedrl.config.schema import PPOConfig
from fusedrl.config.schema.parallel import FrozenMegatronConfig, LearningMegatronConfig
from fusedrl.models.resting import Resting, gradients_of, optimizer_of, parameters_of
from fusedrl.trainers.roles import Role, TrainedRole


@dataclass(eq=False)
class Offloading:
    """parameters: needed by passes of any kind; others: by updates. bytes: of this rank, given back the last time."""

    parameters: list[Resting]
    others: list[Resting]
    bytes: int = 0

    @staticmethod
    def of(config: PPOConfig, roles: Mapping[str, Role]) -> "Offloading":
        """As configured, of the roles that there are."""
        policy = config.actor_rollout_ref
        wishes: dict[str, FrozenMegatronConfig] = {
            "actor": policy.actor.megatron,
            "critic": config.critic.megatron,
            "ref": policy.ref.megatron,
            "reward": config.reward_model.megatron,
        }
        parameters = [parameters_of(role.module) for name, role in roles.items() if wishes[name].param_offload]
        others: list[Resting] = []
        for name, role in roles.items():
            wish = wishes[name]
            if isinstance(role, TrainedRole) and role.held and isinstance(wish, LearningMegatronConfig):
                others += [gradients_of(role.trained)] if wish.grad_offload else []
                others += [optimizer_of(role.trained)] if wish.optimizer_offload else []
        return Offloading(parameters, others)

    def __bool__(self) -> bool:
        return bool(self.parameters or self.others)

    def offload(self) -> None:
        """Before generation, when the engine has its weights."""
        # of the optimizer first: it asks where the parameters' memory is
        self.bytes = sum(each.offload() for each in (*self.others, *self.parameters))
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # an engine with an allocator of its own must find it

    def for_reading(self) -> None:
        """Before forward passes."""
        for each in self.parameters:
            each.onload()

    def for_training(self) -> None:
        """Before updates, and whatever else looks at the models."""
        self.for_reading()
        for each in self.others:
            each.onload()

    def metrics(self) -> dict[str, float]:
        return {"perf/offloaded_bytes": float(self.bytes)} if self else {}
