"""Bradley-Terry's loss of a reward model on pairs of responses. Shapes: P pairs.

    -log sigmoid(chosen - rejected - margin)          Bradley & Terry 1952; margin: Touvron et al. 2023 (Llama 2), eq. 2
    + center x (chosen + rejected)^2                  rewards stay near 0: Eisenstein et al. 2023, eq. 3

Loss and metrics are this micro-batch's share of the batch's: all are divided by the global number of pairs and *add up*
over micro-batches and data-parallel ranks.
"""

import math
from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from fusedrl.rl.masked import check_shapes, working

Metrics: TypeAlias = dict[str, Tensor]
SIDES = ("chosen", "rejected")
SQUARE = "square"  # of a reward; becomes a standard deviation once summed


def bradley_terry(
    chosen_P: Tensor,
    rejected_P: Tensor,
    *,
    margins_P: Tensor | None = None,
    center: float = 0.0,
    pairs: Tensor | float | None = None,
) -> tuple[Tensor, Metrics]:
    """(loss, metrics). `pairs`: of the whole batch, all micro-batches and ranks; default: these are all.

    accuracy: chosen above rejected, a tie counts half. margin: mean of chosen - rejected.
    """
    check_shapes(chosen_P, rejected=rejected_P)
    chosen_P, rejected_P = working(chosen_P), working(rejected_P)
    total = float(len(chosen_P) if pairs is None else pairs)
    if not total >= 1.0:
        raise ValueError(f"the loss is divided by {total} pairs: it is a count over the whole batch")
    difference_P = chosen_P - rejected_P
    if margins_P is None:
        beyond_P = difference_P
    else:
        check_shapes(chosen_P, margins=margins_P)
        beyond_P = difference_P - margins_P
    loss_P = -logsigmoid(beyond_P)  # softplus would drop its tail beyond 20
    if center:
        loss_P = loss_P + center * (chosen_P + rejected_P).square()
    loss = loss_P.sum() / total
    return loss, {"rm/loss": loss.detach(), **_shares(chosen_P, rejected_P, total=total)}


@torch.no_grad()
def _shares(chosen_P: Tensor, rejected_P: Tensor, *, total: float) -> Metrics:
    """In float64: a standard deviation comes of sums of squares."""
    chosen_P, rejected_P = chosen_P.double(), rejected_P.double()
    found_P = {
        "rm/accuracy": won(chosen_P, rejected_P),
        "rm/margin": chosen_P - rejected_P,
        **{f"rm/{side}/mean": x_P for side, x_P in zip(SIDES, (chosen_P, rejected_P), strict=True)},
        **{f"rm/{side}/{SQUARE}": x_P.square() for side, x_P in zip(SIDES, (chosen_P, rejected_P), strict=True)},
    }
    return {name: x_P.sum() / total for name, x_P in found_P.items()}


def won(chosen_P: Tensor, rejected_P: Tensor) -> Tensor:
    """float64: 1 where the chosen response scores above, 1/2 where both score alike, else 0."""
    return (chosen_P > rejected_P).double() + 0.5 * (chosen_P == rejected_P).double()


def with_deviations(sums: Mapping[str, float], *, pairs: int) -> dict[str, float]:
    """Summed metrics with the mean squares turned into standard deviations, unbiased; 0 for one pair."""
    found = dict(sums)
    for side in SIDES:
        square, mean = found.pop(f"rm/{side}/{SQUARE}"), found[f"rm/{side}/mean"]
        biased = max(square - mean * mean, 0.0)
        found[f"rm/{side}/std"] = math.sqrt(biased * pairs / (pairs - 1)) if pairs > 1 else 0.0
    return found
