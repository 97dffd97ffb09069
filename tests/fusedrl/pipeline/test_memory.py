from pathlib import Path

import pytest
import torch

from fusedrl.pipeline.memory import Held, MemoryMeter, peaks
from schedules.order import Op, Order
from schedules.problem import Model, Problem
from tests.distributed.pool import RankPool

F0, B0 = Op("actor", "F", 0, 0), Op("actor", "B", 0, 0)


def test_saved_storages_count_once_and_weights_not() -> None:
    weight = torch.ones(5, 5, dtype=torch.float64, requires_grad=True)
    meter = MemoryMeter([weight])
    x = torch.ones(3, 5, dtype=torch.float64, requires_grad=True)
    with meter.forward(("actor", 0, 0)):
        y = x @ weight  # saves x and the weight
        z = y * y  # saves y, twice
    meter.note(F0, [("actor", 0, 0)])
    z.sum().backward()
    meter.note(B0, [])
    assert meter.curve == [Held(F0, 1, 2 * 15 * 8), Held(B0, 0, 0)]
    assert torch.equal(x.grad, (2 * (x.detach() @ weight.detach())) @ weight.detach().T)


@pytest.mark.parametrize(
    ("world", "kind", "builder"),
    [(2, "opposed", "greedy"), (2, "v", "random1"), (2, "v", "split_random"), (4, "copies", "random2")],
)
def test_what_is_held_is_what_the_plan_says(
    ranks: RankPool, tmp_path: Path, world: int, kind: str, builder: str
) -> None:
    job = "tests.fusedrl.pipeline.timeline_jobs:profiled"
    results = ranks.run(job, world=world, kind=kind, builder=builder, folder=str(tmp_path))
    assert results[0]["peaks"] == results[1]["peaks"]
    found = results[0]["peaks"]
    assert found["microbatches"] == found["planned_microbatches"] == tuple(int(x) for x in found["planned"])
    assert list(found["nbytes"]) == results[0]["replayed"]
    assert min(found["nbytes"]) > 0
    assert results[0]["ends"] == [(0, 0)] * world
    assert results[0]["unmeasured"] == ((), None)


def test_forward_only_models_hold_nothing_for_a_backward() -> None:
    models = (
        Model("actor", [0], 2, forward=1.0, backward=1.0, activation=3.0),
        Model("ref", [0], 2, 1.0, activation=5.0),
    )
    problem = Problem(1, models)
    between = Order(
        (
            tuple(
                Op(name, kind, m, 0)
                for name, kind, m in (
                    ("actor", "F", 0),
                    ("ref", "F", 0),
                    ("actor", "B", 0),
                    ("actor", "F", 1),
                    ("ref", "F", 1),
                    ("actor", "B", 1),
                )
            ),
        )
    )
    found = peaks(problem, between, [[Held(F0, 1, 100), Held(B0, 0, 0)]], columns=[0])
    assert (found.microbatches, found.planned_microbatches) == ((1,), (1,))
    assert (found.nbytes, found.planned) == ((100,), (8.0,))
