"""Memory and weights of models that are there for passes which read samples, and for these alone.

    copy            actor or critic in a layout of its own (inference_megatron): weights are handed over before a pass,
                    its memory is given back after it
    frozen model    resident=false: its parameters wait in CPU memory and come for its passes

    with reading.lent({"actor": ...}):      # by role: what a pass reads
        infer(...)

The way on GPUs, with pinned copies (fusedrl.models.resting), has not run on one.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fusedrl.config.inference_layout import own_layouts
from fusedrl.config.schema import PPOConfig
from fusedrl.models.resting import Resting, emptied, parameters_of
from fusedrl.rollout.handover import hand_over
from fusedrl.trainers.roles import READS, Role, RoleSpec, TrainedRole, build_role


@dataclass(frozen=True, eq=False)
class Lent:
    """A model whose weights come for a pass. source: they are handed over from there; memory: given back after it."""

    role: Role
    source: TrainedRole | None
    memory: Resting | None

    def take(self) -> None:
        """A collective of the current team where there is a source."""
        if self.memory is not None:
            self.memory.onload()
        if self.source is not None:
            hand_over(self.source.module, self.role.module)

    def give_back(self) -> None:
        if self.memory is not None:
            self.memory.offload()


@dataclass(frozen=True, eq=False)
class Reading:
    """By role, the models whose weights are not always there."""

    models: Mapping[str, Lent] = field(default_factory=dict)

    @property
    def copies(self) -> list[Role]:
        """Roles that are there beside the trained ones."""
        return [each.role for each in self.models.values() if each.source is not None]

    def of(self, role: TrainedRole) -> Role:
        """What stands for it in passes that read."""
        lent = self.models.get(role.name)
        return role if lent is None else lent.role

    @contextmanager
    def lent(self, names: Collection[str]) -> Iterator[None]:
        """The weights of these roles are there. A collective of the current team."""
        taken = [each for name, each in self.models.items() if name in names]
        for each in taken:
            each.take()
        try:
            yield
        finally:
            for each in taken:
                each.give_back()


def make_reading(config: PPOConfig, trained: Mapping[str, TrainedRole], frozen: Mapping[str, Role]) -> Reading:
    """As configured; memory is given back until the first pass. A collective of the whole job."""
    options: dict[str, Any] = {"seed": config.trainer.seed, "timeout_s": config.trainer.timeout_s}
    own = {
        "actor": config.actor_rollout_ref.actor.inference_megatron,
        "critic": config.critic.inference_megatron,
    }
    made: dict[str, Lent] = {}
    for name, key, megatron in own_layouts(config):
        source = trained[name]
        spec = RoleSpec.of(name + READS, megatron, key=key, folder=source.spec.folder, head=source.spec.head)
        role = build_role(spec, **options)
        made[name] = Lent(role, source, None if own[name].resident else emptied(role.module))
    waits = {"ref": config.actor_rollout_ref.ref.megatron, "reward": config.reward_model.megatron}
    for name, role in frozen.items():
        if not waits[name].resident:
            made[name] = Lent(role, None, parameters_of(role.module))
    for each in made.values():
        each.give_back()
    return Reading(made)
