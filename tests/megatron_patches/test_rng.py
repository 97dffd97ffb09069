import pytest
import torch

import megatron_patches
from megatron_patches import rng
from megatron_patches.retarget import PatchError

megatron_patches.apply()

from megatron.core.tensor_parallel import random  # noqa: E402


def test_fork_draws_from_its_own_stream_and_gives_the_old_one_back() -> None:
    tracker = random.CudaRNGStatesTracker()
    tracker.add("ours", 7)
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with tracker.fork("ours"):
        first = torch.rand(2)
    assert torch.equal(torch.rand(3), expected)
    with tracker.fork("ours"):
        second = torch.rand(2)
    torch.manual_seed(7)
    assert torch.equal(torch.cat([first, second]), torch.cat([torch.rand(2), torch.rand(2)]))


def test_adding_a_stream_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    random.CudaRNGStatesTracker().add("ours", 7)
    assert torch.equal(before, torch.get_rng_state())


def test_another_signature_upstream_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "_get_cuda_rng_state", lambda device, new_argument: None)
    with pytest.raises(PatchError, match="new_argument"):
        rng.apply()
