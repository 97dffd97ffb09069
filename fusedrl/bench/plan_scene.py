"""A plan as it is acted out: its units in order, and which part of each a rank has.

    unit       a call, or the trainings of actor and critic as one
    order      that of the plan: by phase, then by planned start; every rank goes through its units in this order
    part       a rank's stage, replica and place of a tensor-parallel group; the critic's stages lie in reverse

What comes before what follows from messages alone: a unit needs all results of the phase before it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fusedrl.parallel.layout import Layout
from fusedrl.parallel.placement import place_stages
from fusedrl.plan.calls import CALLS, PHASE, Call, Way
from fusedrl.plan.memory import Stage, stages_of
from fusedrl.plan.planner import Plan
from fusedrl.plan.price import Pricer
from fusedrl.plan.sizes import ModelSizes

REVERSED = "critic"  # the model whose first stage lies on the last ranks, as the trainer has it


@dataclass(frozen=True)
class Part:
    """A rank's place in a way. stage: of the model, counted in the model's direction."""

    tp_i: int
    dp_i: int
    stage: int


@dataclass(frozen=True)
class Scene:
    """A plan without its search. units: the calls of each, in the order in which ranks go through them."""

    name: str
    pricer: Pricer
    ways: Mapping[str, Way]
    units: tuple[tuple[str, ...], ...]
    predicted: float

    @staticmethod
    def of(plan: Plan) -> "Scene":
        spans = [(PHASE[_calls(name)[0].kind], start, n, name) for n, (name, _, start, _, _) in enumerate(plan.spans())]
        units = tuple(tuple(name.split("+")) for _, _, _, name in sorted(spans))
        return Scene(plan.name, plan.pricer, dict(plan.ways), units, plan.seconds)

    @property
    def world(self) -> int:
        return self.pricer.costs.cluster.world

    def model(self, call: str) -> ModelSizes:
        return self.pricer.models[CALLS[call].model]

    def ranks(self, unit: int) -> tuple[int, ...]:
        """All calls of a unit lie on the same ranks."""
        return tuple(self.ways[self.units[unit][0]].mesh.ranks)

    def phase(self, unit: int) -> int:
        return PHASE[CALLS[self.units[unit][0]].kind]

    @cached_property
    def needs(self) -> tuple[tuple[int, ...], ...]:
        """Of each unit, the units whose results it reads: those of the last phase before its own that has any."""
        found = []
        for unit in range(len(self.units)):
            before = [self.phase(other) for other in range(len(self.units)) if self.phase(other) < self.phase(unit)]
            last = max(before, default=-1)
            found.append(tuple(other for other in range(len(self.units)) if self.phase(other) == last))
        return tuple(found)

    def part(self, call: str, rank: int) -> Part | None:
        """None where the rank has no part of the call."""
        way = self.ways[call]
        if rank not in way.mesh.ranks:
            return None
        tp_i, dp_i, pp_i, _ = way.layout.coords(rank - way.mesh.first)
        return Part(tp_i, dp_i, self.placement(call).index(pp_i))

    def rank(self, call: str, part: Part) -> int:
        """The rank that has a part."""
        way = self.ways[call]
        column = self.placement(call)[part.stage]
        return way.mesh.first + way.layout.rank(tp_i=part.tp_i, dp_i=part.dp_i, pp_i=column)

    def placement(self, call: str) -> tuple[int, ...]:
        """The pipeline column of each stage."""
        return place_stages(self.ways[call].pp, reverse=CALLS[call].model == REVERSED)

    def stage(self, call: str, part: Part) -> Stage:
        return stages_of(self.model(call), self.ways[call].layout)[part.stage]

    def speakers(self, call: str) -> tuple[int, ...]:
        """The ranks that hold results: the first of each replica's last stage."""
        layout: Layout = self.ways[call].layout
        return tuple(self.rank(call, Part(0, dp_i, layout.pp - 1)) for dp_i in range(layout.dp))


def _calls(unit: str) -> list[Call]:
    return [CALLS[name] for name in unit.split("+")]
