from types import SimpleNamespace

import pytest
import torch
from megatron.core.transformer.moe import moe_utils

import megatron_patches
from megatron_patches import experts
from megatron_patches.retarget import PatchError

megatron_patches.apply()


def test_a_router_scores_where_its_weight_lies() -> None:
    from megatron.core.transformer.moe.router import Router

    weight, x = torch.randn(3, 4), torch.randn(2, 1, 4)
    router = SimpleNamespace(weight=weight, bias=None, config=SimpleNamespace(moe_router_dtype=None))
    assert torch.equal(Router.gating(router, x), (x.view(2, 4) @ weight.t()).view(2, 1, 3))


def test_a_kernel_that_is_there_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(moe_utils, experts.KERNEL)
    experts.define_kernel()
    assert moe_utils.te_general_gemm is None
    monkeypatch.setattr(moe_utils, experts.KERNEL, "there")
    experts.define_kernel()
    assert moe_utils.te_general_gemm == "there"


def test_another_megatron_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experts, "KERNEL", "a_kernel_of_old")
    with pytest.raises(PatchError, match="mentions no a_kernel_of_old"):
        experts.define_kernel()
