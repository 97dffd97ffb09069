"""Interleaved 1F1B (Narayanan et al. 2021): v stages of a model on each rank, stage s on rank s mod p.

The ranks take p micro-batches through one stage before they turn to the next stage they hold. Rank r runs
2 (p - 1 - r) + (v - 1) p forwards first, then one forward and one backward in turn, then the remaining backwards.
With F and B of one stage it takes (M v + p - 1) (F + B): the fill of plain 1F1B divided by v. M is a multiple of p.
"""

from schedules.builders.serial import Row, one_after_other
from schedules.order import Op, Order
from schedules.problem import Model, Problem, ProblemError


def interleaved_1f1b(problem: Problem) -> Order:
    """The models in the problem's sequence, each interleaved. Raises ProblemError where a placement is not round."""
    return one_after_other(problem, rows_interleaved)


def rows_interleaved(problem: Problem, model: Model) -> list[Row]:
    """One model alone, interleaved over the ranks in the sequence of its first stages."""
    order = _ranks_in_turn(model)
    width, chunks = len(order), model.stages // len(order)
    rows: list[Row] = [[] for _ in range(problem.ranks)]
    for turn, own in enumerate(order):
        forward = [Op(model.name, "F", m, c * width + turn) for m, c in _visits(model, width, chunks)]
        backward = [Op(model.name, "B", m, (chunks - 1 - c) * width + turn) for m, c in _visits(model, width, chunks)]
        warmup = min(len(forward), 2 * (width - 1 - turn) + (chunks - 1) * width)
        for rank in own:
            rows[rank] = _alternate(forward, backward if model.trains else [], warmup)
    return rows


def _ranks_in_turn(model: Model) -> list[tuple[int, ...]]:
    """The ranks of the stages of one round; a stage may occupy several, which then run the same row."""
    ranks = [model.ranks_of(s) for s in range(model.stages)]
    order = list(dict.fromkeys(ranks))
    apart = len({rank for own in order for rank in own}) == sum(map(len, order))
    round_robin = apart and all(own == order[s % len(order)] for s, own in enumerate(ranks))
    if not round_robin or model.stages % len(order) or model.microbatches % len(order):
        raise ProblemError(
            f"{model.name}.placement: interleaving needs stage s on rank s mod p and micro-batches in multiples of p; "
            f"got {list(model.placement)} with {model.microbatches} micro-batches"
        )
    return order


def _visits(model: Model, width: int, chunks: int) -> list[tuple[int, int]]:
    """(micro-batch, chunk) in the sequence in which a rank takes them: p micro-batches, chunk by chunk."""
    groups = range(0, model.microbatches, width)
    return [(first + k, c) for first in groups for c in range(chunks) for k in range(width)]


def _alternate(forward: Row, backward: Row, warmup: int) -> Row:
    """`warmup` forwards, then a forward and a backward in turn, then the remaining backwards."""
    row = forward[:warmup]
    for k in range(max(len(backward), len(forward) - warmup)):
        row += forward[warmup + k : warmup + k + 1] + backward[k : k + 1]
    return row
