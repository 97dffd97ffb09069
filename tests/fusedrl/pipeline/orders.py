"""Random valid orders: any interleaving that respects dependencies and micro-batch order."""

import random
from collections.abc import Collection

from schedules.order import Op, Order
from schedules.problem import Model, Problem


def random_order(problem: Problem, *, seed: int, whole: Collection[int] = ()) -> Order:
    """Draw a sequence of all ops in which none comes before what it waits for; each rank's row is its part of it.

    whole: micro-batches whose backward is not split where the others' is.
    """
    chooser = random.Random(seed)
    rows: list[list[Op]] = [[] for _ in range(problem.ranks)]
    todo = {
        (model.name, kind, stage): _microbatches(model, kind, whole)
        for model in problem.models
        for kind in kinds(model)
        for stage in range(model.stages)
    }
    done: set[Op] = set()
    while todo := {lane: left for lane, left in todo.items() if left}:
        heads = [Op(name, kind, left[0], stage) for (name, kind, stage), left in todo.items()]
        ready = [op for op in heads if all(need in done for need in needs(problem.model(op.model), op, whole=whole))]
        op = chooser.choice(ready)
        done.add(op)
        for rank in problem.model(op.model).ranks_of(op.stage):
            rows[rank].append(op)
        todo[op.model, op.kind, op.stage] = todo[op.model, op.kind, op.stage][1:]
    return Order(tuple(tuple(row) for row in rows))


def kinds(model: Model) -> str:
    return "F" if not model.trains else "FB" if model.backward_weight is None else "FBW"


def _microbatches(model: Model, kind: str, whole: Collection[int]) -> list[int]:
    return [m for m in range(model.microbatches) if kind != "W" or m not in whole]


def needs(model: Model, op: Op, *, whole: Collection[int] = ()) -> list[Op]:
    if op.kind == "F":
        return [Op(op.model, "F", op.microbatch, op.stage - 1)] if op.stage else []
    if op.kind == "W":  # after the whole backwards before it, which add to the same gradients
        return [Op(op.model, "B", m, op.stage) for m in range(op.microbatch + 1)]
    later = [Op(op.model, "B", op.microbatch, op.stage + 1)] if op.stage + 1 < model.stages else []
    if op.microbatch in whole and model.backward_weight is not None:
        later += [Op(op.model, "W", m, op.stage) for m in range(op.microbatch) if m not in whole]
    return [Op(op.model, "F", op.microbatch, op.stage), *later]
