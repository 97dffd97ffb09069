from pathlib import Path

import pytest
import torch

from fusedrl.models.architecture import Architecture, Rope
from fusedrl.models.rope import inverse_frequencies

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64.0}


@pytest.mark.parametrize(
    "rope", [Rope(theta=500.0), Rope(type="linear", scaling={"factor": 4.0}), Rope(type="llama3", scaling=LLAMA3)]
)
def test_frequencies_equal_hugging_faces(rope: Rope) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    arch = Architecture("llama", 64, 2, 2, 2, 32, 64, 50, rope=rope)
    config = LlamaConfig.from_dict(arch.to_config())
    assert torch.equal(inverse_frequencies(rope, head_dim=32), LlamaRotaryEmbedding(config).inv_freq)


def test_llama3_scaling_touches_long_wavelengths_only(tmp_path: Path) -> None:
    plain = inverse_frequencies(Rope(), head_dim=32)
    scaled = inverse_frequencies(Rope(type="llama3", scaling=LLAMA3), head_dim=32)
    assert scaled[0] == plain[0]
    assert torch.isclose(scaled[-1], plain[-1] / 8)
