"""Inverse frequencies of rotary positions, as Hugging Face computes them (transformers' modeling_rope_utils).

Megatron's own scaling hard-codes Llama 3.1's numbers; we set the frequencies ourselves instead. What yarn multiplies
queries and keys by goes into the scale of attention's scores, which all kernels take.
"""

import math

import torch
from torch import Tensor

from fusedrl.models.rope_settings import ORIGINAL, REQUIRED, Rope


def inverse_frequencies(rope: Rope, *, head_dim: int) -> Tensor:
    """theta^(-2i/d) for i in 0..d/2, then the type's scaling; float32, shape [head_dim / 2]."""
    frequencies = 1.0 / (rope.theta ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim))
    if rope.type == "linear":
        return frequencies / rope.scaling["factor"]
    if rope.type == "llama3":
        return _llama3(frequencies, **{name: rope.scaling[name] for name in REQUIRED["llama3"]})
    if rope.type == "yarn":
        return _yarn(rope, head_dim=head_dim)
    return frequencies


def softmax_scale(rope: Rope, *, head_dim: int) -> float | None:
    """Of attention's scores; None for the usual 1 / sqrt(head_dim)."""
    factor = rope.attention_factor
    return None if factor == 1.0 else factor**2 / math.sqrt(head_dim)


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


def _yarn(rope: Rope, *, head_dim: int) -> Tensor:
    """Dimensions that turn often keep their frequency, those that turn seldom have it divided, a ramp between."""
    powers = rope.theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
    often, seldom = rope.scaling.get("beta_fast", 32.0), rope.scaling.get("beta_slow", 1.0)
    low, high = (_dimension(rope, turns, head_dim=head_dim) for turns in (often, seldom))
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    if low == high:
        high += 0.001  # a step rather than a division by 0
    ramp = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    kept = 1 - ramp
    return 1.0 / (rope.scaling["factor"] * powers) * (1 - kept) + 1.0 / powers * kept


def _dimension(rope: Rope, turns: float, *, head_dim: int) -> float:
    """Where a wave turns so many times over the original positions."""
    return head_dim * math.log(rope.scaling[ORIGINAL] / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))
