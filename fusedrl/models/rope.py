"""Inverse frequencies of rotary positions, as Hugging Face computes them (transformers' modeling_rope_utils).

Megatron's own scaling hard-codes Llama 3.1's numbers; we set the frequencies ourselves instead.
"""

import math

import torch
from torch import Tensor

from fusedrl.models.architecture import ROPE_NUMBERS, Rope


def inverse_frequencies(rope: Rope, *, head_dim: int) -> Tensor:
    """theta^(-2i/d) for i in 0..d/2, then the type's scaling; float32, shape [head_dim / 2]."""
    frequencies = 1.0 / (rope.theta ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim))
    if rope.type == "linear":
        return frequencies / rope.scaling["factor"]
    if rope.type == "llama3":
        return _llama3(frequencies, **{name: rope.scaling[name] for name in ROPE_NUMBERS["llama3"]})
    return frequencies


def _llama3(
    frequencies: Tensor,
    *,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: float,
) -> Tensor:
    """Long wavelengths divided by `factor`, short ones kept, a linear blend between."""
    wavelength = 2 * math.pi / frequencies
    blend = (original_max_position_embeddings / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor)
    blended = (1 - blend) * frequencies / factor + blend * frequencies
    long = wavelength > original_max_position_embeddings / low_freq_factor
    short = wavelength < original_max_position_embeddings / high_freq_factor
    return torch.where(long, frequencies / factor, torch.where(short, frequencies, blended))
