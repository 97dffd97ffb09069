"""Random valid orders: any interleaving that respects dependencies and micro-batch order."""

import random

from schedules.order import Op, Order
from schedules.problem import Model, Problem


def random_order(problem: Problem, *, seed: int) -> Order:
    """Draw a sequence of all ops in which none comes before what it waits for; each rank's row is its part of it."""
    chooser = random.Random(seed)
    rows: list[list[Op]] = [[] for _ in range(problem.ranks)]
    todo = {
        (model.name, kind, stage): 0
        for model in problem.models
        for kind in kinds(model)
        for stage in range(model.stages)
    }
    done: set[Op] = set()
    while todo:
        ready = [Op(name, kind, m, stage) for (name, kind, stage), m in todo.items()]
        op = chooser.choice([op for op in ready if all(need in done for need in needs(problem.model(op.model), op))])
        done.add(op)
        for rank in problem.model(op.model).ranks_of(op.stage):
            rows[rank].append(op)
        lane = (op.model, op.kind, op.stage)
        todo[lane] += 1
        if todo[lane] == problem.model(op.model).microbatches:
            del todo[lane]
    return Order(tuple(tuple(row) for row in rows))


def kinds(model: Model) -> str:
    return "F" if not model.trains else "FB" if model.backward_weight is None else "FBW"


def needs(model: Model, op: Op) -> list[Op]:
    if op.kind == "W":
        return [Op(op.model, "B", op.microbatch, op.stage)]
    if op.kind == "F":
        return [Op(op.model, "F", op.microbatch, op.stage - 1)] if op.stage else []
    later = [Op(op.model, "B", op.microbatch, op.stage + 1)] if op.stage + 1 < model.stages else []
    return [Op(op.model, "F", op.microbatch, op.stage), *later]
