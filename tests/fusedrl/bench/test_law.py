from typing import Any

import pytest
import torch
import torch.distributed as dist

from fusedrl.bench import law
from fusedrl.bench.checks import Failed
from tests.distributed.pool import RankPool

JOBS = "tests.fusedrl.bench.gpu_jobs"


@pytest.mark.parametrize("world", [1, 2])
def test_orders_are_bit_equal_on_stages_of_one_rank_and_of_two(ranks: RankPool, world: int) -> None:
    for found in ranks.run(f"{JOBS}:law_holds", world=world):
        assert (found["ranks"], found["orders"]) == (world, ["serial", "fused", "fused_split"])
        assert found["tensors_equal"] > 100


def test_a_single_bit_fails_the_law_with_the_order_and_the_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    one = torch.ones(3)

    def trained(found: Any, *, order: str, implementation: Any) -> dict[str, torch.Tensor]:
        other = torch.nextafter(one, torch.tensor(2.0))
        return {"actor/gradient/0": one, "critic/gradient/1": other if order == "fused_split" else one}

    monkeypatch.setattr(law, "_trained", trained)
    monkeypatch.setattr(dist, "get_world_size", lambda: 1)
    with pytest.raises(Failed, match=r"fused_split differs from serial in 1 of 2: \['critic/gradient/1'\]"):
        law.check_law(law.sizes(small=True))


def test_deterministic_kernels_are_asked_for_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def trained(*_: object, **__: object) -> dict[str, torch.Tensor]:
        asked.append(torch.are_deterministic_algorithms_enabled())
        return {}

    monkeypatch.setattr(law, "_trained", trained)
    monkeypatch.setattr(dist, "get_world_size", lambda: 1)
    law.check_law(law.sizes(small=True))
    assert asked == [True] * 3
    assert not torch.are_deterministic_algorithms_enabled()
