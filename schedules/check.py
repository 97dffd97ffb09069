"""Whether an order may run: complete, free of circular waits, in order, within the memory cap, safe to send.

Each stage takes its micro-batches in increasing order, kind by kind. Any order then sums a stage's gradients in the
same sequence, which is what makes fused and serial training bit-equal.
"""

from schedules.lower import lower
from schedules.order import Op, Order, OrderError
from schedules.problem import Problem
from schedules.rendezvous import check_rendezvous
from schedules.replay import Replay, replay


def check(problem: Problem, order: Order) -> Replay:
    """Check an order and give its replay. Raises OrderError, one line that names the place."""
    _check_kinds(problem, order)
    result = replay(problem, order)
    for rank, row in enumerate(order.rows):
        check_row(row, rank=rank)
    for rank, peak in enumerate(result.peak_memory):
        if not problem.fits(peak):
            raise OrderError(f"rank {rank}: peak memory {peak:g} is above memory_cap {problem.memory_cap:g}")
    check_rendezvous(lower(problem, order))
    return result


def check_row(row: tuple[Op, ...], *, rank: int) -> None:
    """Micro-batches increase within each (model, kind, stage), and so do the steps that add to its gradient."""
    split = {(op.model, op.stage, op.microbatch) for op in row if op.kind == "W"}
    last: dict[tuple[str, str, int], Op] = {}
    for op in row:
        lanes: list[str] = [op.kind]
        if op.kind == "W" or (op.kind == "B" and (op.model, op.stage, op.microbatch) not in split):
            lanes.append("gradient")
        for lane in lanes:
            before = last.get((op.model, lane, op.stage))
            if before is not None and before.microbatch >= op.microbatch:
                raise OrderError(f"rank {rank}: {op} comes after {before}; a stage takes its micro-batches in order")
            last[op.model, lane, op.stage] = op


def _check_kinds(problem: Problem, order: Order) -> None:
    splittable = {model.name: model.backward_weight is not None for model in problem.models}
    for rank, row in enumerate(order.rows):
        for op in row:
            if op.kind == "W" and op.model in splittable and not splittable[op.model]:
                raise OrderError(f"rank {rank}: {op}, but {op.model} has no backward_weight; its backward is not split")
