import pytest

import megatron_patches
from megatron_patches import attention_buffer
from megatron_patches.retarget import PatchError


def test_scratch_is_there_without_initialize_model_parallel_and_lies_on_the_cpu() -> None:
    import torch
    from megatron.core import parallel_state

    megatron_patches.apply()
    scratch = parallel_state.get_global_memory_buffer().get_tensor((2, 3), torch.float32, "test")
    assert (scratch.shape, scratch.device.type) == ((2, 3), "cpu")


def test_another_signature_upstream_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from megatron.core import parallel_state

    monkeypatch.setattr(parallel_state, "_set_global_memory_buffer", lambda size: None)
    with pytest.raises(PatchError, match="_set_global_memory_buffer"):
        attention_buffer.apply()
