"""What the tests of plans run on gloo ranks: training with the schedule made for each step, and agreement on orders."""

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.config.schema import ActorConfig, CostConfig, CriticConfig, ScheduleConfig
from fusedrl.pipeline.agreement import Made, agree_order
from fusedrl.trainers import device_memory, losses
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.roles import make_executor
from fusedrl.trainers.update import Learner, mini_batches, shapes_ahead, update
from schedules.builders import greedy
from schedules.problem import Model, Problem
from tests.distributed.trainer_jobs import TIMEOUT_S, WIDTH, build, experience_of, random_samples

UNEVEN = {"costs": "constant", "actor": CostConfig(forward=3.0, backward=6.0), "critic": CostConfig()}


def train(folder: str, *, pp: int, steps: int, micro: int, uneven: bool, **schedule: Any) -> dict[str, Any]:
    """Steps of four mini-batches, each step prepared; this rank's weights, and every pass's metrics, order, figures.

    uneven: constant costs, of which greedy's order is not the best.
    """
    actor, critic = build(folder, tp=1, pp=pp)
    executor = make_executor([actor, critic], timeout_s=TIMEOUT_S)
    planner = Planner(ScheduleConfig(**(UNEVEN if uneven else {}), **schedule))
    learners = {
        "actor": Learner(actor, micro, lambda m: losses.policy_loss(ActorConfig(), m, actor=actor, temperature=1.0)),
        "critic": Learner(critic, micro, lambda m: losses.value_loss(CriticConfig(), m, critic=critic)),
    }
    samples = random_samples(16)
    values_BR = torch.linspace(-1.0, 1.0, 16 * WIDTH).view(16, WIDTH)
    experience = experience_of(samples, found={"logp": values_BR - 2, "values": values_BR, "ref_logp": values_BR - 2})
    updates = []
    for step in range(steps):
        rows = list(mini_batches(samples, size=8, epochs=2, shuffle=True, seed=step))
        ahead = [shapes_ahead(learners, samples, rows_N) for rows_N in rows]
        planner.prepare([{name: (learners[name].role, each[name]) for name in learners} for each in ahead])
        updates += [update(learners, experience, rows_N, executor=executor, planner=planner) for rows_N in rows]
    planner.close()
    return {
        "state": [p.detach().clone() for role in (actor, critic) for p in role.module.parameters()],
        "metrics": [each.metrics for each in updates],
        "figures": [each.schedule for each in updates],
        "orders": [each.program.order.to_text(each.program.problem) for each in updates],
        "digests": [each.program.problem.digest for each in updates],
    }


def agree(*, differs: bool, fails: bool) -> str:
    """The order's text, or the error. differs: rank 1's problem is another; fails: rank 0 makes no order."""
    problem = Problem(2, (Model("actor", [0, 1], 3, forward=1.0, backward=2.0),))
    if differs and dist.get_rank() == 1:
        problem = replace(problem, comm=0.25)

    def make() -> Made:
        assert dist.get_rank() == 0
        if fails:
            raise ValueError("no order can be made")
        return Made(greedy(problem), {"figure": 1.5}, final=False)

    try:
        made = agree_order(problem, make)
    except ValueError as error:
        return f"error: {error}"
    assert (made.figures, made.final) == ({"figure": 1.5}, False)
    return made.order.to_text(problem)


def cap_of(*, share: float, free_mib: list[int], before: float | None) -> float:
    """The cap where this many MiB are free on the ranks."""
    original = device_memory.free_memory
    device_memory.free_memory = lambda device: free_mib[dist.get_rank()] * 2**20
    try:
        return device_memory.shared_cap(torch.device("cpu"), share=share, before=before)
    finally:
        device_memory.free_memory = original
