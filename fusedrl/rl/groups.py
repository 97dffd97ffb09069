"""A sample's score beside the other scores of its prompt's group. B samples; groups by any integer, in any order.

Everything is float64 and from deviations, two passes: in float32, E[x^2] - E[x]^2 of equal scores is not 0 but 1e-4,
and dividing by its root makes advantages of thousands. Scores that differ by rounding only (1e-6 of the largest) count
as equal, their std is exactly 0.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

EQUAL = 1e-6  # relative: float32 scores carry about 1e-7


@dataclass(frozen=True)
class Comparison:
    """Per sample [B], float64. `others_*` leave the sample itself out. Samples that do not count hold zeros."""

    size_B: Tensor  # samples of the group that count
    deviation_B: Tensor  # score - group mean
    std_unbiased_B: Tensor
    std_biased_B: Tensor
    others_mean_B: Tensor
    others_std_B: Tensor  # unbiased


def compare(scores_B: Tensor, groups_B: Tensor, live_B: Tensor) -> Comparison:
    """Statistics of the groups over the samples where `live_B`; a group may be of any size, one included."""
    if groups_B.shape != scores_B.shape:
        raise ValueError(f"{tuple(groups_B.shape)} groups for {tuple(scores_B.shape)} scores: name one group a sample")
    scores_B = torch.where(live_B, scores_B.double(), 0.0)
    mates_BK, seat_B = _mates(groups_B)
    peers_BK = torch.where(mates_BK >= 0, scores_B[mates_BK], 0.0)
    members_BK = (mates_BK >= 0) & live_B[mates_BK] & live_B[:, None]
    others_BK = members_BK.scatter(1, seat_B[:, None], False)
    mean_B, squares_B = _mean_and_squares(peers_BK, members_BK)
    others_mean_B, others_squares_B = _mean_and_squares(peers_BK, others_BK)
    size_B = members_BK.sum(1)
    return Comparison(
        size_B=size_B,
        deviation_B=torch.where(live_B, scores_B - mean_B, 0.0),
        std_unbiased_B=_std(squares_B, size_B - 1),
        std_biased_B=_std(squares_B, size_B),
        others_mean_B=others_mean_B,
        others_std_B=_std(others_squares_B, size_B - 2),
    )


def _mates(groups_B: Tensor) -> tuple[Tensor, Tensor]:
    """Indices [B, K] of all samples of each sample's group (-1: no more), and the sample's own place among them [B]."""
    _, group_B, size_G = groups_B.unique(return_inverse=True, return_counts=True)
    order_B = group_B.argsort(stable=True)
    start_G = size_G.cumsum(0) - size_G
    seat_B = torch.empty_like(group_B)
    seat_B[order_B] = torch.arange(len(group_B), device=group_B.device) - start_G[group_B[order_B]]
    widest = int(size_G.max()) if len(size_G) else 1
    table_GK = group_B.new_full((len(size_G), widest), -1)
    table_GK[group_B, seat_B] = torch.arange(len(group_B), device=group_B.device)
    return table_GK[group_B], seat_B


def _mean_and_squares(peers_BK: Tensor, members_BK: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and sum of squared deviations of each row's members; 0 where it has none, squares 0 where all are equal."""
    mean_B = torch.where(members_BK, peers_BK, 0.0).sum(1) / members_BK.sum(1).clamp(min=1)
    deviations_BK = torch.where(members_BK, peers_BK - mean_B[:, None], 0.0)
    largest_B = torch.where(members_BK, peers_BK.abs(), 0.0).amax(1)
    differ_B = (deviations_BK.abs() > EQUAL * largest_B[:, None]).any(1)
    return mean_B, torch.where(differ_B, deviations_BK.square().sum(1), 0.0)


def _std(squares_B: Tensor, divisor_B: Tensor) -> Tensor:
    return torch.where(divisor_B > 0, squares_B / divisor_B.clamp(min=1), 0.0).sqrt()
