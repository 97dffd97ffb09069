"""Weight gradients put off and done later are the stock's, bit for bit; what else a backward gives comes at once."""

import pytest

from megatron_patches import weight_gradients
from megatron_patches.retarget import PatchError
from tests.distributed.pool import RankPool

JOBS = "tests.megatron_patches.weight_jobs"


@pytest.mark.parametrize("world", [1, 2])
def test_split_backward_equals_the_stocks(ranks: RankPool, world: int) -> None:
    for rank, cases in enumerate(ranks.run(f"{JOBS}:run_cases", world=world)):
        assert len(cases) == 8
        for case, holds in cases.items():
            assert all(holds.values()), f"rank {rank}: {case}: {holds}"


def test_fused_accumulation_adds_to_main_grad_in_w_alone(ranks: RankPool) -> None:
    (found,) = ranks.run(f"{JOBS}:fused_accumulation", world=1)
    assert found == {"in B": [], "in W": ["fp32"], "results": [None], "right": True, "grad": True}


def test_another_signature_upstream_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_gradients, "_arguments", ["input", "weight"])
    with pytest.raises(PatchError, match=r"without \['bias', 'gradient_accumulation_fusion'"):
        weight_gradients.connect(lambda parameter, gradient: False)
