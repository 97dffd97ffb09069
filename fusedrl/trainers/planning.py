"""Programs for the passes of a run: roles and their micro-batches -> plan -> program, kept for equal work.

The plan depends on micro-batch shapes alone. Shapes of replicas may differ, so ranks first agree on the largest: one
order serves all replicas.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fusedrl.config.schema import ScheduleConfig
from fusedrl.pipeline.costs import Cost
from fusedrl.pipeline.executor import Work
from fusedrl.pipeline.microbatch import shapes_of
from fusedrl.pipeline.plan import Planned, Shapes, plan_pass, without_training
from fusedrl.pipeline.program import Program
from fusedrl.pipeline.results import agree_shapes
from fusedrl.trainers.costs import planned_cost
from fusedrl.trainers.roles import Role

_KEPT = 64  # programs; a run meets few different shapes


@dataclass(eq=False)
class Planner:
    """Plans passes by the schedule of the configuration. All ranks ask in the same sequence."""

    schedule: ScheduleConfig
    _programs: dict[tuple[tuple[str, bool, Shapes], ...], Program] = field(default_factory=dict)

    def program(self, passes: Mapping[str, tuple[Role, Work]]) -> Program:
        """The program of one pass over these roles, each with its work."""
        shapes = agree_shapes({name: shapes_of(work.microbatches) for name, (_, work) in passes.items()})
        key = tuple((name, work.loss is not None, shapes[name]) for name, (_, work) in passes.items())
        if key not in self._programs:
            if len(self._programs) >= _KEPT:
                self._programs.pop(next(iter(self._programs)))
            self._programs[key] = self._plan(passes, shapes)
        return self._programs[key]

    def _plan(self, passes: Mapping[str, tuple[Role, Work]], shapes: Mapping[str, Shapes]) -> Program:
        models = [
            planned(role, shapes=shapes[name], trains=work.loss is not None, cost=_cost(self.schedule, role))
            for name, (role, work) in passes.items()
        ]
        trains = any(model.trains for model in models)
        method = self.schedule.method if trains else without_training(self.schedule.method)
        cap = self.schedule.memory_cap if trains else None
        return plan_pass(models, method=method, memory_cap=cap, comm=self.schedule.comm)


def planned(role: Role, *, shapes: Shapes, trains: bool, cost: Cost) -> Planned:
    """A role's part of a plan."""
    layout = role.layout
    return Planned(
        name=role.name,
        shapes=shapes,
        pp=layout.pp,
        tp=layout.tp,
        dp=layout.dp,
        reverse=role.spec.reverse,
        shape=role.spec.placement,
        trains=trains,
        cost=cost,
        key=role.spec.key,
    )


def _cost(schedule: ScheduleConfig, role: Role) -> Cost:
    stages, dtype = len(role.pipeline.placement), role.spec.dtype
    return planned_cost(schedule, role.name, role.architecture, tp=role.layout.tp, stages=stages, dtype=dtype)
