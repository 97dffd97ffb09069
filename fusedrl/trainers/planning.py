"""Programs for the passes of a run: roles and their micro-batches -> problem -> order -> program.

    prepare    a step's samples are known: durations as measured so far are agreed, the search for orders begins
    program    a pass is about to run: rank 0's best order by now, the same on all ranks, kept for equal work
    observe    it has run: what its ops took

Shapes of replicas may differ, so ranks first agree on the largest: one order serves all replicas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusedrl.config.schema import ScheduleConfig
from fusedrl.parallel.comm import broadcast_object
from fusedrl.parallel.team import leads
from fusedrl.pipeline.agreement import Made, agree_order
from fusedrl.pipeline.costs import Cost
from fusedrl.pipeline.executor import Work
from fusedrl.pipeline.order_search import Key, OrderSearch, key_of
from fusedrl.pipeline.plan import Planned, Shapes, make_problem, may_split, order_by, without_training
from fusedrl.pipeline.profile import Fits, Profile, from_rows, measured, message_time, to_rows
from fusedrl.pipeline.program import Program, make_program
from fusedrl.pipeline.results import agree_shapes
from fusedrl.pipeline.timeline import Timeline
from fusedrl.pipeline.tokens import planned_shapes
from fusedrl.trainers.costs import planned_cost
from fusedrl.trainers.device_memory import shared_cap
from fusedrl.trainers.roles import READS, Role
from schedules.problem import Problem, ProblemError

_KEPT = 64  # programs
SEARCHED = ("fused", "fused_split")  # methods whose orders a search may better


@dataclass(frozen=True)
class _Pass:
    """A pass to plan. counted: its models with counted costs; profiled: whether the problem's times are ms."""

    counted: list[Planned]
    problem: Problem
    method: str
    profiled: bool

    @property
    def trains(self) -> bool:
        return any(model.trains for model in self.counted)


@dataclass(eq=False)
class Planner:
    """Plans passes by the schedule of the configuration. All ranks ask in the same sequence.

    figures: of the last program, for the step's metrics; the same on every rank.
    """

    schedule: ScheduleConfig
    figures: dict[str, float] = field(default_factory=dict)
    _programs: dict[Key, tuple[Program, dict[str, float]]] = field(default_factory=dict)
    _profile: Profile = field(default_factory=Profile)  # rank 0's alone is filled
    _fits: Fits = field(default_factory=dict)  # agreed
    _cap: float | None = None  # agreed, of schedule.memory_share
    _search: OrderSearch | None = None  # on rank 0
    _last: tuple[_Pass, Program] | None = None

    def prepare(self, passes: Sequence[Mapping[str, tuple[Role, Shapes]]]) -> None:
        """The training passes of a step, before they run. A collective of all ranks."""
        if profiles(self.schedule):
            self._fits = from_rows(broadcast_object(to_rows(self._profile.fits(self._fits))))
        if self.schedule.memory_share is not None:
            device = next(role.device for each in passes for role, _ in each.values())
            self._cap = shared_cap(device, share=self.schedule.memory_share, before=self._cap)
        if not searches(self.schedule):
            return
        named = {
            f"pass {k}: {name}": shapes if role.held else None
            for k, each in enumerate(passes)
            for name, (role, shapes) in each.items()
        }
        agreed = agree_shapes(named)
        if not leads():
            return
        self._search = self._search or OrderSearch(method=self.schedule.solver, seconds=self.schedule.time_budget)
        asked = [
            self._pass({name: (role, agreed[f"pass {k}: {name}"], True) for name, (role, _) in each.items()})
            for k, each in enumerate(passes)
        ]
        self._search.begin([each.problem for each in asked])

    def program(self, passes: Mapping[str, tuple[Role, Work]]) -> Program:
        """The program of one pass over these roles, each with its work. A collective of all ranks."""
        shapes = agree_shapes(
            {
                name: planned_shapes(role.pipeline.tokens, work.microbatches) if role.held else None
                for name, (role, work) in passes.items()
            }
        )
        asked = self._pass({name: (role, shapes[name], work.loss is not None) for name, (role, work) in passes.items()})
        key = key_of(asked.problem)
        if key in self._programs:
            program, figures = self._programs[key]
            self.figures = figures | {"schedule/cache_hits": 1.0, "schedule/solve_s": 0.0, "schedule/wait_s": 0.0}
        else:
            made = agree_order(asked.problem, lambda: self._make(asked))
            program = make_program(asked.problem, made.order)
            self.figures = _planned_figures(asked, program) | made.figures
            if made.final:
                self._keep(key, program)
        self._last = asked, program
        return program

    def observe(self, timeline: Timeline) -> None:
        """When the ops of the last program's pass ran."""
        assert self._last is not None, "observe: no program was asked for"
        asked, program = self._last
        if asked.trains and leads():
            self._profile.add(asked.counted, program.problem, timeline)

    def close(self) -> None:
        """End the search."""
        if self._search is not None:
            self._search.close()

    def _pass(self, models: Mapping[str, tuple[Role, Shapes, bool]]) -> _Pass:
        """models: role, agreed shapes, and whether it trains."""
        counted = [
            planned(role, shapes=shapes, trains=trains, cost=_cost(self.schedule, role))
            for role, shapes, trains in models.values()
        ]
        if not any(model.trains for model in counted):
            method = without_training(self.schedule.method)
            problem = make_problem(counted, comm=self.schedule.comm, split=may_split(method))
            return _Pass(counted, problem, method, profiled=False)
        method, in_ms = self.schedule.method, measured(counted, self._fits)
        comm = self.schedule.comm if in_ms is None else message_time(self._fits)
        problem = make_problem(in_ms or counted, comm=comm, split=may_split(method))
        return _Pass(counted, self._capped(problem), method, profiled=in_ms is not None)

    def _capped(self, problem: Problem) -> Problem:
        if self._cap is None:
            return problem.with_cap(self.schedule.memory_cap)
        try:
            return problem.with_cap(self._cap)
        except ProblemError as error:
            raise ProblemError(
                f"schedule.memory_share={self.schedule.memory_share:g} of the free memory: {error}"
            ) from error

    def _make(self, asked: _Pass) -> Made:
        """On rank 0."""
        if self._search is None or not asked.trains:
            return Made(order_by(asked.problem, asked.method))
        taken = self._search.take(asked.problem, unit_s=self._unit_s(asked))
        figures = {
            "schedule/solve_s": taken.seconds,
            "schedule/wait_s": taken.waited,
            "schedule/greedy_makespan": taken.start.replay.makespan,
            "schedule/greedy_bubble": taken.start.replay.bubble_ratio,
        }
        return Made(taken.order, figures, final=taken.final)

    def _unit_s(self, asked: _Pass) -> float | None:
        """Seconds of a plan's unit of time: none of GFLOP. Before there is a profile nothing is worth waiting for."""
        if asked.profiled:
            return 1e-3
        return 0.0 if profiles(self.schedule) else None

    def _keep(self, key: Key, program: Program) -> None:
        if len(self._programs) >= _KEPT:
            self._programs.pop(next(iter(self._programs)))
        self._programs[key] = program, self.figures


def searches(schedule: ScheduleConfig) -> bool:
    """Whether orders are searched for, beyond the builders'."""
    return schedule.method in SEARCHED and schedule.solver != "greedy" and schedule.time_budget > 0


def profiles(schedule: ScheduleConfig) -> bool:
    """Whether durations are measured; constants stay as they are given."""
    return schedule.profile and schedule.costs == "counted"


def _planned_figures(asked: _Pass, program: Program) -> dict[str, float]:
    return {
        "schedule/planned_makespan": program.planned.makespan,
        "schedule/planned_bubble": program.planned.bubble_ratio,
        "schedule/profiled": float(asked.profiled),
        "schedule/cache_hits": 0.0,
        "schedule/solve_s": 0.0,
        "schedule/wait_s": 0.0,
    }


def planned(role: Role, *, shapes: Shapes, trains: bool, cost: Cost) -> Planned:
    """A role's part of a plan."""
    layout = role.layout
    return Planned(
        name=role.name,
        shapes=shapes,
        pp=layout.pp,
        tp=layout.tp,
        dp=layout.dp,
        cp=layout.cp,
        reverse=role.spec.reverse,
        shape=role.spec.placement,
        trains=trains,
        cost=cost,
        ranks=role.spec.ranks,
    )


def _cost(schedule: ScheduleConfig, role: Role) -> Cost:
    stages, dtype = len(role.pipeline.placement), role.spec.dtype
    built: dict[str, Any] = {"tp": role.layout.tp, "cp": role.layout.cp, "dtype": dtype, "options": role.spec.options}
    return planned_cost(schedule, role.name.removesuffix(READS), role.architecture, stages=stages, **built)
