import math

import pytest
import torch

from fusedrl.models.architecture import Architecture
from fusedrl.models.rope import inverse_frequencies, softmax_scale
from fusedrl.models.rope_settings import Rope

LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64.0}
YARN = {"factor": 4.0, "original_max_position_embeddings": 64.0}
ROPES = [
    Rope(theta=500.0),
    Rope(type="linear", scaling={"factor": 8.0}),
    Rope(type="llama3", scaling=LLAMA3),
    Rope(type="yarn", scaling=YARN),
    Rope(theta=300.0, type="yarn", scaling=YARN | {"beta_fast": 2.0, "beta_slow": 0.5, "truncate": False}),
    Rope(type="yarn", scaling=YARN | {"mscale": 0.7, "mscale_all_dim": 0.4}),
    Rope(type="yarn", scaling=YARN | {"mscale": 0.7}),
    Rope(type="yarn", scaling=YARN | {"attention_factor": 1.25}),
    Rope(type="yarn", scaling=YARN | {"factor": 1.0}),
    Rope(theta=1e6, type="yarn", scaling=YARN | {"beta_fast": 1e-9, "beta_slow": 1e-9}),
]


@pytest.mark.parametrize("rope", ROPES)
def test_frequencies_and_attention_factor_equal_hugging_faces(rope: Rope) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    arch = Architecture("llama", 64, 2, 2, 2, 32, 64, 50, rope=rope)
    theirs = LlamaRotaryEmbedding(LlamaConfig.from_dict(arch.to_config()))
    assert torch.equal(inverse_frequencies(rope, head_dim=32), theirs.inv_freq)
    assert rope.attention_factor == theirs.attention_scaling


def test_llama3_scaling_touches_long_wavelengths_only() -> None:
    plain = inverse_frequencies(Rope(), head_dim=32)
    scaled = inverse_frequencies(Rope(type="llama3", scaling=LLAMA3), head_dim=32)
    assert scaled[0] == plain[0]
    assert torch.isclose(scaled[-1], plain[-1] / 8)


def test_linear_scaling_divides_every_frequency_by_its_factor() -> None:
    plain, scaled = inverse_frequencies(Rope(), head_dim=32), inverse_frequencies(ROPES[1], head_dim=32)
    assert torch.equal(scaled * 8, plain)


def test_scores_grow_by_the_square_of_yarns_attention_factor() -> None:
    assert softmax_scale(ROPES[7], head_dim=16) == 1.25**2 / 4
    assert softmax_scale(ROPES[3], head_dim=16) == pytest.approx((0.1 * math.log(4) + 1) ** 2 / 4)
    assert softmax_scale(ROPES[1], head_dim=16) is None
