"""The banker's test: it refuses the start that would lock two models against each other, and only that."""

from schedules.builders.banker import Banker
from schedules.graph import build_graph
from schedules.order import Op
from schedules.problem import Model, Problem

# Opposite directions, room for two activations on each rank.
PROBLEM = Problem(
    2, (Model("a", [0, 1], 4, 1, 1, activation=1), Model("b", [1, 0], 4, 1, 1, activation=1)), memory_cap=2
)


class Bench:
    """Starts and ends ops by hand."""

    def __init__(self, problem):
        self.graph = build_graph(problem)
        chains = len(self.graph.chains)
        self.started, self.done, self.free = [0] * chains, [0] * chains, [problem.room] * problem.ranks
        self.banker = Banker(self.graph, self.started, self.done, self.free)

    def allows(self, model, microbatch, stage):
        return self.banker.allows(self.graph.number[Op(model, "F", microbatch, stage)])

    def start(self, model, microbatch, stage):
        i = self.graph.number[Op(model, "F", microbatch, stage)]
        self.started[self.graph.chain_of[i]] += 1
        for rank in self.graph.ranks_of(i):
            self.free[rank] -= self.graph.acquire[i]


def test_filling_both_ranks_with_opposite_models_is_refused():
    bench = Bench(PROBLEM)
    for model, microbatch in (("a", 0), ("b", 0), ("a", 1)):
        assert bench.allows(model, microbatch, 0)
        bench.start(model, microbatch, 0)
    # rank 0 holds a0, a1; rank 1 holds b0. With b1 on rank 1 neither a0 nor b0 could reach its second stage.
    assert not bench.allows("b", 1, 0)
    assert bench.allows("a", 0, 1)


def test_a_full_rank_is_safe_where_its_own_backward_frees_it():
    bench = Bench(Problem(1, (Model("a", [0], 4, 1, 1, activation=1),), memory_cap=2))
    bench.start("a", 0, 0)
    assert bench.allows("a", 1, 0)


def test_a_sequence_kept_from_before_is_replaced_where_another_is_needed():
    bench = Bench(PROBLEM.with_cap(3))
    for model, microbatch, stage in (("a", 0, 0), ("b", 0, 0), ("a", 1, 0), ("b", 1, 0), ("b", 0, 1)):
        assert bench.allows(model, microbatch, stage)
        bench.start(model, microbatch, stage)
    # rank 0: a0 a1 b0 (full), rank 1: b0 b1. Only b0 can be finished first now, though a0 came first.
    assert bench.allows("b", 2, 0) is False or bench.banker.sequence[0] == (1, 0)


def test_forward_only_ops_are_always_allowed():
    bench = Bench(Problem(1, (Model("r", [0], 2, 1, activation=1),), memory_cap=1))
    assert bench.allows("r", 0, 0)
