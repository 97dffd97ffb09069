"""Zero-bubble orders (Qi et al. 2023, 2024): W, which nothing waits for, fills the bubbles of 1F1B.

One stage a rank, ZB-H1: stage s of p runs p - s forwards, then B, the W of s micro-batches before, and F in turn:
1F1B's memory on its first rank, on every rank. For M >= p and F = B = W it takes
M (F + B + W) + (p - 1) (F + B - W).

Several stages a rank, as the V [0,1,2,3,3,2,1,0] of ZB-V: backward first, then forward, then W, in 1F1B's memory. The
last stage's backward is on the first rank at once; for F = B = W = 1 a stage, M >= p, a V takes 6 M + p - 1.
"""

from schedules.builders.list_schedule import list_schedule
from schedules.builders.serial import Row, one_after_other
from schedules.graph import build_graph, every_split
from schedules.order import Op, Order
from schedules.problem import Model, Problem, ProblemError

_TURN = {"B": 0, "F": 1, "W": 2}


def zero_bubble(problem: Problem) -> Order:
    """The models in the problem's sequence, each zero-bubble. Every training model needs a backward_weight."""
    return one_after_other(problem, rows_zero_bubble)


def rows_zero_bubble(problem: Problem, model: Model) -> list[Row]:
    """One model alone. Raises ProblemError where it trains without a weight part."""
    if model.trains and model.backward_weight is None:
        raise ProblemError(f"{model.name}.backward_weight: a zero-bubble order needs the weight part of backward")
    if any(len(model.stages_on(rank)) > 1 for rank in range(problem.ranks)):
        return _rows_by_backward_first(problem, model)
    return [[op for s in model.stages_on(r) for op in _row_h1(model, s)] for r in range(problem.ranks)]


def _row_h1(model: Model, stage: int) -> Row:
    """ZB-H1's row of one stage: 1F1B with W put off by as many micro-batches as the stage has before it."""
    forward, backward, weight = (
        [Op(model.name, kind, m, stage) for m in range(model.microbatches)] for kind in ("F", "B", "W")
    )
    if not model.trains:
        return forward
    warmup = model.stages - stage
    row = forward[:warmup]
    for m, op in enumerate(backward):
        late = weight[m - stage : m - stage + 1] if m >= stage else []
        row += [op, *late, *forward[m + warmup : m + warmup + 1]]
    return row + weight[max(0, model.microbatches - stage) :]


def _rows_by_backward_first(problem: Problem, model: Model) -> list[Row]:
    counted = Model(
        model.name, model.placement, model.microbatches, model.forward, model.backward, model.backward_weight, 1
    )
    alone = Problem(problem.ranks, (counted,), problem.comm, memory_cap=model.stages)
    graph = build_graph(alone, split=every_split(alone))
    # Of two backwards the earlier micro-batch's; of two forwards the deeper stage's, which its backward waits for.
    priority = [_TURN[op.kind] + (op.microbatch * model.stages - op.stage) * 1e-6 for op in graph.ops]
    return [[graph.ops[i] for i in row] for row in list_schedule(graph, priority=priority)]
