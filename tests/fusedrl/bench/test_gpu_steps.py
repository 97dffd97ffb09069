from typing import Any

import pytest
import torch

import megatron_patches
from fusedrl.bench import gpu_steps
from fusedrl.bench.checks import Failed, Skipped
from fusedrl.bench.gpu_steps import MIB, check_allocator, check_losses, check_patches
from tests.distributed.pool import RankPool


def test_patches_in_force_on_cuda_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Skipped, match="the CPU needs them: layers, model"):
        check_patches()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert check_patches() == {"applied": "none"}
    monkeypatch.setattr(megatron_patches, "apply", lambda: ("layers",))
    with pytest.raises(Failed, match="applied on CUDA: layers"):
        check_patches()


@pytest.mark.parametrize("losses", [[1.0, float("nan"), 0.5], [1.0, 0.9, 1.0], [float("inf"), 1.0]])
def test_losses_must_be_finite_and_fall(losses: list[float]) -> None:
    check_losses([1.0, 1.1, 0.9], name="actor")
    with pytest.raises(Failed, match="actor: "):
        check_losses(losses, name="actor")


def test_the_allocator_must_see_what_autograd_holds() -> None:
    check_allocator(11 * MIB, held=10 * MIB)
    for grown in (2, 30):
        with pytest.raises(Failed, match=f"grew by {grown} MiB in a pass that holds 10 MiB"):
            check_allocator(grown * MIB, held=10 * MIB)


def test_the_measured_model_has_a_billion_parameters() -> None:
    from fusedrl.models.weights import shapes

    size = gpu_steps.scale(on_gpu=True)
    count = sum(torch.Size(shape).numel() for _, shape in shapes(size.arch, head="lm"))
    assert 1.0e9 < count < 1.2e9
    assert size.tokens == [1024, 2048, 4096]


@pytest.mark.parametrize("miscounted", [False, True])
def test_microbatches_in_flight_are_compared_with_the_plan(ranks: RankPool, miscounted: bool) -> None:
    (found,) = ranks.run("tests.fusedrl.bench.gpu_jobs:memory", world=1, miscounted=miscounted)
    outcome: dict[str, Any] = found
    if miscounted:
        assert outcome["failed"] == "in flight: (7,) micro-batches, planned (6,)"
    else:
        assert outcome["in_flight"] == 6
        assert outcome["held_MiB"] > 0
