"""Sizes of public models, on which trainers went wrong."""

import pytest
import torch

from fusedrl.models.architecture import Architecture, pad_vocab
from fusedrl.models.rope import inverse_frequencies

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 50,
    "max_position_embeddings": 512,
    "eos_token_id": 2,
}


@pytest.mark.parametrize(("vocab_size", "tp", "rows"), [(151936, 2, 152064), (128256, 8, 129024)])
def test_vocabulary_becomes_the_next_multiple_of_128_times_tp(vocab_size: int, tp: int, rows: int) -> None:
    """Not a multiple of 128 on each rank, times tp once more (303872)."""
    assert pad_vocab(vocab_size, tp=tp) == rows
    assert rows % (128 * tp) == 0


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_theta": 1e6, "rope_scaling": {"type": "linear", "factor": 8.0}},
        {"rope_theta": 1e6, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
        {"rope_parameters": {"rope_theta": 1e6, "rope_type": "linear", "factor": 8.0}},
    ],
    ids=["old", "old-rope-type", "transformers-5"],
)
def test_linear_scaling_interpolates_by_its_factor_and_theta_is_read(keys: dict) -> None:
    rope = Architecture.from_config(CONFIG | keys).rope
    assert (rope.type, rope.theta, rope.scaling) == ("linear", 1e6, {"factor": 8.0})
    plain = 1e6 ** -(torch.arange(0, 32, 2) / 32)
    torch.testing.assert_close(inverse_frequencies(rope, head_dim=32), plain / 8, rtol=1e-6, atol=0)
