"""Counter-based random numbers: a function of (seed, step, sample id, position), never of the batch.

A sample keeps its tokens whichever rows share its batch, in whatever order requests arrive, and after it moved to
another rank: there is no generator whose state could be advanced by somebody else. The function is SplitMix64
(Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"): a sample's key is the mix of its names, and
the number at position t is output t of the stream that starts at this key.

    key = mix(mix(mix(seed) + step) + sample_id)         uniform(key, t) = mix(key + (t + 1) * GAMMA) / 2**64

Legend: R rows.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

_WORD = 1 << 64
GAMMA = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, odd
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_UNIFORM_BITS = 48  # u * total stays below total in fp64 whatever the total: no draw can fall off the end


def mix(value: int) -> int:
    """SplitMix64's finaliser on one 64-bit word."""
    value = (value ^ (value >> 30)) * _FIRST % _WORD
    value = (value ^ (value >> 27)) * _SECOND % _WORD
    return value ^ (value >> 31)


def sample_key(seed: int, *, step: int, sample_id: int) -> int:
    """The key of one sample, as a signed 64-bit integer that fits a torch tensor."""
    key = mix((seed + GAMMA) % _WORD)
    for name in (step, sample_id):
        key = mix((key + name + GAMMA) % _WORD)
    return _signed(key)


def sample_keys(seeds: Sequence[tuple[int, int, int]]) -> Tensor:
    """key_R of (seed, step, sample_id) triples."""
    return torch.tensor([sample_key(s, step=t, sample_id=i) for s, t, i in seeds], dtype=torch.int64)


def uniform(key_R: Tensor, position_R: Tensor) -> Tensor:
    """u_R, fp64, uniform on [0, 1) in steps of 2**-48, for the token at `position_R` of each sample."""
    bits_R = _mix_tensor(key_R + (position_R + 1) * _signed(GAMMA))
    return _shift(bits_R, 64 - _UNIFORM_BITS).double() * 2.0**-_UNIFORM_BITS


def _mix_tensor(value_R: Tensor) -> Tensor:
    value_R = (value_R ^ _shift(value_R, 30)) * _signed(_FIRST)
    value_R = (value_R ^ _shift(value_R, 27)) * _signed(_SECOND)
    return value_R ^ _shift(value_R, 31)


def _shift(value_R: Tensor, bits: int) -> Tensor:
    """Logical right shift; torch's own keeps the sign."""
    return (value_R >> bits) & ((1 << (64 - bits)) - 1)


def _signed(word: int) -> int:
    return word - _WORD if word >= _WORD // 2 else word
