"""FLOPs of a layer and of the head for one micro-batch, in the three parts that a pipeline order moves about.

    matrices of w weights, T tokens   forward 2 w T,  input gradient 2 w T,  weight gradient 2 w T
    attention core                    forward and backward as in attention.py; it has no weights, so all of its
                                      backward belongs to the input gradient

Source: Kaplan et al. 2020 (arXiv 2001.08361), section 2.1, and Korthikanti et al. 2022 (arXiv 2205.05198), appendix A.
Over a whole model this is the rule 6 N T, plus attention. Not counted: norms, rotary positions, the activation
function, the loss, the embedding (a look-up) and the critic's value head (h weights).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from schedules.transformer.attention import CORES, squares
from schedules.transformer.shapes import Shape


@dataclass(frozen=True)
class Flops:
    """FLOPs by part, or the seconds that they take."""

    forward: float = 0.0
    input_gradient: float = 0.0
    weight_gradient: float = 0.0

    @property
    def backward(self) -> float:
        """Both gradients."""
        return self.input_gradient + self.weight_gradient

    def __add__(self, other: "Flops") -> "Flops":
        return Flops(
            self.forward + other.forward,
            self.input_gradient + other.input_gradient,
            self.weight_gradient + other.weight_gradient,
        )

    def __mul__(self, factor: float) -> "Flops":
        return Flops(self.forward * factor, self.input_gradient * factor, self.weight_gradient * factor)


def layer_flops(shape: Shape, *, lengths: Sequence[int], attention: str = "flash") -> Flops:
    """One layer over sequences of these lengths, on all its tensor-parallel devices together."""
    core, products = CORES[attention], squares(lengths) * shape.hidden
    return _matrices(shape.layer_weights, sum(lengths)) + Flops(core.forward * products, core.backward * products)


def head_flops(shape: Shape, *, tokens: int) -> Flops:
    """The language-model head: hidden to vocabulary."""
    return _matrices(shape.head_weights, tokens)


def _matrices(weights: int, tokens: int) -> Flops:
    once = 2.0 * weights * tokens
    return Flops(once, once, once)
