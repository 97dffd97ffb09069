"""The attention core, scores to weighted values: three ways to run it, which differ in FLOPs and in what they keep.

Over a sequence of s tokens with hidden size h and a heads, Q K^T and P V are two products of 2 s^2 h FLOPs each
(Korthikanti et al. 2022, arXiv 2205.05198, appendix A). Their backward is four such products.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Core:
    """Costs of one way, in multiples: of s^2 h FLOPs, and of a s^2 bytes."""

    forward: float
    backward: float
    kept: float


CORES = {
    # FlashAttention skips the masked half of a causal core and recomputes Q K^T in its backward: five products to the
    # forward's two (Dao 2023, arXiv 2307.08691, section 4.1: 4 s^2 h, half of it where causal, backward x 2.5).
    "flash": Core(forward=2, backward=5, kept=0),
    # Unfused, the forward's two products again before the backward: Korthikanti et al.'s selective recomputation.
    "recomputed": Core(forward=4, backward=12, kept=0),
    # Unfused, the softmax's output kept in bf16; their 5 a s^2 counts dropout's mask and output too, LLaMA has none.
    "stored": Core(forward=4, backward=8, kept=2),
}


def squares(lengths: Sequence[int]) -> int:
    """Sum of s^2 over the sequences of a micro-batch: packed sequences do not see each other."""
    return sum(length * length for length in lengths)
