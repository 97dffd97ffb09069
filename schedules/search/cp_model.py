"""A problem as a CP-SAT model, and the order in a CP-SAT solution. What it means stands in exact.py."""

from ortools.sat.python import cp_model

from schedules.graph import build_graph, every_split
from schedules.order import Order
from schedules.passes import split_backward
from schedules.problem import Problem
from schedules.replay import numbered, walk
from schedules.search.limits import Limits
from schedules.search.units import Unit, unit_of

_DETERMINISTIC_PER_STEP = 1e-5  # CP-SAT's deterministic time, about seconds, for what the annealing counts as one step
_LATEST = 2**62  # a problem that needs more units of time has no solution here
_SOLVED = (cp_model.OPTIMAL, cp_model.FEASIBLE)


class CpModel:
    """Variables and constraints of a problem with every backward split that may be; solved at most once."""

    def __init__(self, problem: Problem, *, horizon: float) -> None:
        self.problem = problem
        self.graph = build_graph(problem, split=every_split(problem))
        self.time = unit_of([*self.graph.duration, problem.comm])
        cap = [] if problem.memory_cap is None else [problem.memory_cap]
        self.memory = unit_of([*self.graph.acquire, *cap])
        self.horizon = min(self.time.up(horizon), _LATEST)
        self.cp = cp_model.CpModel()
        self.duration = [self.time.up(d) for d in self.graph.duration]
        self.start = [self.cp.new_int_var(0, self.horizon - d, "") for d in self.duration]
        self.makespan = self.cp.new_int_var(0, self.horizon, "makespan")
        self.stays = self._stays()
        self._add_precedences()
        self._add_ranks()
        if problem.memory_cap is not None:
            self._add_memory(self.memory.down(problem.memory_cap))
        self._solver: cp_model.CpSolver | None = None

    def peak_below(self, peak: float) -> cp_model.IntVar:
        """A variable for the largest peak memory, at most `peak`."""
        limit = self.memory.up(peak)
        least = max(self.memory.up(self.problem.least_memory(rank)) for rank in range(self.problem.ranks))
        variable = self.cp.new_int_var(least, limit, "peak")
        self._add_memory(variable)
        return variable

    def hint(self, order: Order) -> None:
        """Start the search from an order."""
        full = split_backward(self.problem, order)
        start, _ = walk(self.graph, numbered(self.graph, full))
        for variable, time in zip(self.start, start, strict=True):
            self.cp.add_hint(variable, self.time.up(time))

    def minimise(self, objective: cp_model.IntVar, *, unit: Unit, limits: Limits) -> float:
        """Search; give the proved bound on the objective in the problem's units, 0 where nothing is proved."""
        self.cp.minimize(objective)
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = limits.seconds
        if limits.steps is not None:
            solver.parameters.max_deterministic_time = limits.steps * _DETERMINISTIC_PER_STEP
        solver.parameters.num_workers = limits.workers
        solver.parameters.random_seed = limits.seed
        status = solver.solve(self.cp)
        self._solver = solver if status in _SOLVED else None
        exact = self.time.exact and self.memory.exact
        return max(0.0, solver.best_objective_bound / unit.scale) if exact else 0.0

    def order(self) -> Order | None:
        """The order found; None where the search ended without one."""
        if self._solver is None:
            return None
        start = [self._solver.value(variable) for variable in self.start]
        rows: list[list[int]] = [[] for _ in range(self.problem.ranks)]
        # Ops without duration may share a start: those nearer to the micro-batch's entry come first.
        for i in sorted(range(len(start)), key=lambda i: (start[i], start[i] + self.duration[i], self._depth(i), i)):
            for rank in self.graph.ranks_of(i):
                rows[rank].append(i)
        return self.graph.to_order(rows)

    def _depth(self, i: int) -> int:
        op = self.graph.ops[i]
        stages = self.problem.model(op.model).stages
        return {"F": op.stage, "B": 2 * stages - op.stage, "W": 2 * stages + 1}[op.kind]

    def _stays(self) -> list[tuple[int, int]]:
        """(forward, op that gives the memory back) of every micro-batch at every stage that holds memory."""
        releasing = {}
        for i, amount in enumerate(self.graph.release):
            if amount:
                op = self.graph.ops[i]
                releasing[op.model, op.stage, op.microbatch] = i
        key = [(op.model, op.stage, op.microbatch) for op in self.graph.ops]
        return [(i, releasing[key[i]]) for i, amount in enumerate(self.graph.acquire) if amount]

    def _add_precedences(self) -> None:
        for i, links in enumerate(self.graph.before):
            for j, lag in links:
                self.cp.add(self.start[i] >= self.start[j] + self.duration[j] + self.time.up(lag))
        for chain in self.graph.chains:
            for i in range(chain.first, chain.first + chain.count - 1):
                self.cp.add(self.start[i + 1] >= self.start[i] + self.duration[i])
            last = chain.first + chain.count - 1
            self.cp.add(self.makespan >= self.start[last] + self.duration[last])

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
        for i, j in self.stays:
            length = self.cp.new_int_var(self.duration[i], self.horizon, "")
            stay = self.cp.new_interval_var(self.start[i], length, self.start[j] + self.duration[j], "")
            for rank in self.graph.ranks_of(i):
                rows[rank].append((stay, self.memory.up(self.graph.acquire[i])))
        for row in rows:
            self.cp.add_cumulative([stay for stay, _ in row], [amount for _, amount in row], cap)
        if isinstance(cap, int):
            self._add_credit_windows(cap)

    def _add_credit_windows(self, cap: int) -> None:
        release = dict(self.stays)
        for chain in self.graph.chains:
            ops = range(chain.first, chain.first + chain.count)
            if chain.kind != "F" or any(i not in release for i in ops):
                continue
            room = cap // min(self.memory.up(self.graph.acquire[i]) for i in ops)
            for i in ops[: max(0, len(ops) - room)]:
                j = release[i]
                self.cp.add(self.start[i + room] >= self.start[j] + self.duration[j])
