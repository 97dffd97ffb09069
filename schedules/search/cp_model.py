"""A problem as a CP-SAT model, and the order in a CP-SAT solution. What it means stands in exact.py.

    head(op) <= start(op) <= horizon - tail(op) - duration(op)

Heads and tails (paths.py) count credit windows as the precedences that they are.
"""

import heapq
from dataclasses import replace

from ortools.sat.python import cp_model

from schedules.graph import Chain, Graph, Link, build_graph, every_split
from schedules.order import Order
from schedules.passes import split_backward
from schedules.paths import heads, tails
from schedules.problem import Problem
from schedules.replay import numbered, walk
from schedules.search.credits import Windows
from schedules.search.limits import Limits
from schedules.search.units import Unit, unit_of

_DETERMINISTIC_PER_STEP = 1e-5  # CP-SAT's deterministic time, about seconds, for what the annealing counts as one step
_LATEST = 2**62  # a problem that needs more units of time has no solution here
_SOLVED = (cp_model.OPTIMAL, cp_model.FEASIBLE)


class CpModel:
    """Variables and constraints of a problem with every backward split that may be; solved at most once.

    windows: micro-batches in flight at each stage that holds memory; without them memory is a cumulative.
    """

    def __init__(self, problem: Problem, *, horizon: float, windows: Windows | None = None) -> None:
        self.problem = problem
        self.graph = build_graph(problem, split=every_split(problem))
        self.time = unit_of([*self.graph.duration, problem.comm])
        cap = [] if problem.memory_cap is None else [problem.memory_cap]
        self.memory = unit_of([*self.graph.acquire, *cap])
        self.whole = in_units(self.graph, self.time)
        self.duration = [int(d) for d in self.whole.duration]
        self.horizon = self._horizon(horizon)
        self.stays = self._stays()
        self.cp = cp_model.CpModel()
        room = None if problem.memory_cap is None else self.memory.down(problem.memory_cap)
        self.limited = replace(self.whole, before=self._with_credits(room, windows))
        self.start = self._starts()
        self._add_precedences()
        self._add_ranks()
        if room is not None and windows is None:
            self._add_memory(room)
        self._solver: cp_model.CpSolver | None = None
        self.impossible = False

    @property
    def exact(self) -> bool:
        """Whether what the solver proves holds for the problem as it is, before rounding."""
        return self.time.exact and self.memory.exact

    def makespan_above(self, bound: float) -> cp_model.IntVar:
        """A variable for the makespan, at least `bound`."""
        variable = self.cp.new_int_var(0, self.horizon, "makespan")
        self.cp.add(variable >= min(self.horizon, self.time.up(bound)))
        for chain in self.graph.chains:
            last = chain.first + chain.count - 1
            self.cp.add(variable >= self.start[last] + self.duration[last])
        return variable

    def peak_below(self, peak: float) -> cp_model.IntVar:
        """A variable for the largest peak memory, at most `peak`."""
        limit = self.memory.up(peak)
        least = max(self.memory.up(self.problem.least_memory(rank)) for rank in range(self.problem.ranks))
        variable = self.cp.new_int_var(least, limit, "peak")
        self._add_memory(variable)
        return variable

    def hint(self, order: Order) -> None:
        """Start the search from an order; it need not fit."""
        full = split_backward(self.problem, order)
        start, _ = walk(self.whole, numbered(self.graph, full))
        for variable, time in zip(self.start, start, strict=True):
            self.cp.add_hint(variable, int(time))

    def minimise(self, objective: cp_model.IntVar, *, unit: Unit, limits: Limits) -> float:
        """Search; give the proved bound on the objective in the problem's units, 0 where nothing is proved."""
        self.cp.minimize(objective)
        solver = self._solve(_solver(limits))
        return max(0.0, solver.best_objective_bound * unit.size) if self.exact else 0.0

    def satisfy(self, limits: Limits) -> None:
        """Search for any order; `impossible` says afterwards whether there is proved to be none.

        Decides starts from the end of the schedule backwards, each as late as it may be, where nothing learned says
        otherwise, and without a linear relaxation: what found orders soonest (exact.py).
        """
        self.cp.add_decision_strategy(self.start, cp_model.CHOOSE_HIGHEST_MAX, cp_model.SELECT_MAX_VALUE)
        solver = _solver(limits)
        solver.parameters.search_branching = cp_model.PARTIAL_FIXED_SEARCH
        solver.parameters.linearization_level = 0
        self._solve(solver)

    def order(self) -> Order | None:
        """The order found; None where the search ended without one."""
        if self._solver is None:
            return None
        start = [self._solver.value(variable) for variable in self.start]
        rows: list[list[int]] = [[] for _ in range(self.problem.ranks)]
        for i in self._sequence(start):
            for rank in self.graph.ranks_of(i):
                rows[rank].append(i)
        return self.graph.to_order(rows)

    def _solve(self, solver: cp_model.CpSolver) -> cp_model.CpSolver:
        status = solver.solve(self.cp)
        self._solver = solver if status in _SOLVED else None
        self.impossible = self.exact and status == cp_model.INFEASIBLE
        return solver

    def _sequence(self, start: list[int]) -> list[int]:
        """All ops by start. Those without duration may share one: memory given back goes first, as far as it may."""
        chain = self.graph.chain_of
        waiting = [len(links) + (i > 0 and chain[i - 1] == chain[i]) for i, links in enumerate(self.limited.before)]
        keys = self._keys(start)
        ready = [(keys[i], i) for i, count in enumerate(waiting) if not count]
        heapq.heapify(ready)
        sequence = []
        while ready:
            _, i = heapq.heappop(ready)
            sequence.append(i)
            following = [i + 1] if i + 1 < len(chain) and chain[i + 1] == chain[i] else []
            for j in [*following, *(j for j, _ in self.limited.after[i])]:
                waiting[j] -= 1
                if not waiting[j]:
                    heapq.heappush(ready, (keys[j], j))
        return sequence

    def _keys(self, start: list[int]) -> list[tuple[int, ...]]:
        """Of each op: start, end, and of its micro-batch's stay at the stage the end, the start and the number."""
        end = [time + duration for time, duration in zip(start, self.duration, strict=True)]
        stays = {self._stay_of(i): (end[j], start[i]) for i, j in self.stays.items()}
        return [
            (start[i], end[i], *stays.get(self._stay_of(i), (end[i], start[i])), op.microbatch)
            for i, op in enumerate(self.graph.ops)
        ]

    def _stay_of(self, i: int) -> tuple[str, int, int]:
        op = self.graph.ops[i]
        return op.model, op.stage, op.microbatch

    def _horizon(self, horizon: float) -> int:
        """In units; where durations are rounded up, with room for that in every op."""
        slack = 0 if self.time.exact else 2 * len(self.graph.ops)
        return min(self.time.down(horizon) + slack, _LATEST)

    def _stays(self) -> dict[int, int]:
        """Forward -> op that gives the memory back, of every micro-batch at every stage that holds memory."""
        releasing = {self._stay_of(i): i for i, amount in enumerate(self.graph.release) if amount}
        return {i: releasing[self._stay_of(i)] for i, amount in enumerate(self.graph.acquire) if amount}

    def _with_credits(self, room: int | None, windows: Windows | None) -> list[tuple[Link, ...]]:
        """What each op waits for, with credits: those of the windows, or else those that the cap implies."""
        before = [list(links) for links in self.whole.before]
        for chain in self.graph.chains:
            held = [i for i in range(chain.first, chain.first + chain.count) if self.stays.get(i, i) != i]
            window = self._window(chain, held, room) if windows is None else windows.get((chain.model, chain.stage))
            if window is None:
                continue
            for i, later in zip(held, held[window:], strict=False):
                before[later].append((self.stays[i], 0.0))
        return [tuple(links) for links in before]

    def _window(self, chain: Chain, held: list[int], room: int | None) -> int | None:
        """The most micro-batches of a stage that the cap allows."""
        if room is None or not held:
            return None
        return room // min(self.memory.up(self.graph.acquire[i]) for i in held)

    def _starts(self) -> list[cp_model.IntVar]:
        starts = []
        for head, duration, tail in zip(heads(self.limited), self.duration, tails(self.limited), strict=True):
            first, last = int(head), self.horizon - int(tail) - duration
            starts.append(self.cp.new_int_var(first, max(first, last), ""))
            if last < first:
                self.cp.add_bool_or([])
        return starts

    def _add_precedences(self) -> None:
        for i, links in enumerate(self.limited.before):
            for j, lag in links:
                self.cp.add(self.start[i] >= self.start[j] + self.duration[j] + int(lag))
        for chain in self.graph.chains:
            for i in range(chain.first, chain.first + chain.count - 1):
                self.cp.add(self.start[i + 1] >= self.start[i] + self.duration[i])

    def _add_ranks(self) -> None:
        rows: list[list[cp_model.IntervalVar]] = [[] for _ in range(self.problem.ranks)]
        for i, (start, duration) in enumerate(zip(self.start, self.duration, strict=True)):
            interval = self.cp.new_fixed_size_interval_var(start, duration, "")
            for rank in self.graph.ranks_of(i):
                rows[rank].append(interval)
        for row in rows:
            self.cp.add_no_overlap(row)

    def _add_memory(self, cap: "int | cp_model.IntVar") -> None:
        rows: list[list[tuple[cp_model.IntervalVar, int]]] = [[] for _ in range(self.problem.ranks)]
        for i, j in self.stays.items():
            length = self.cp.new_int_var(self.duration[i], self.horizon, "")
            stay = self.cp.new_interval_var(self.start[i], length, self.start[j] + self.duration[j], "")
            for rank in self.graph.ranks_of(i):
                rows[rank].append((stay, self.memory.up(self.graph.acquire[i])))
        for row in rows:
            self.cp.add_cumulative([stay for stay, _ in row], [amount for _, amount in row], cap)


def in_units(graph: Graph, unit: Unit) -> Graph:
    """The same work with durations and lags in whole units."""
    before = [tuple((j, float(unit.up(lag))) for j, lag in links) for links in graph.before]
    return replace(graph, duration=[float(unit.up(d)) for d in graph.duration], before=before)


def _solver(limits: Limits) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limits.seconds
    if limits.steps is not None:
        solver.parameters.max_deterministic_time = limits.steps * _DETERMINISTIC_PER_STEP
    solver.parameters.num_workers = limits.workers
    solver.parameters.random_seed = limits.seed
    return solver
