"""What the vectorised functions must equal: plain Python loops over lists, one sample and one token at a time."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

NAN = float("nan")


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def ragged_batch(*, samples: int, tokens: int, seed: int) -> tuple[torch.Generator, Tensor]:
    """A generator, and a mask with holes, a full row and an empty row."""
    generator = torch.Generator().manual_seed(seed)
    mask_BT = torch.rand(samples, tokens, generator=generator) < 0.6
    mask_BT[0], mask_BT[1] = True, False
    return generator, mask_BT


def normal(mask_BT: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(mask_BT.shape, generator=generator, dtype=torch.float64)


def poisoned(x: Tensor, mask: Tensor, *, value: float = NAN) -> Tensor:
    """`x` with garbage where the mask does not count, as a fresh leaf that wants a gradient."""
    return torch.where(mask != 0, x.detach(), torch.full_like(x, value)).requires_grad_()


def assert_masked_gradient_is_zero(leaf: Tensor, mask: Tensor) -> None:
    assert leaf.grad is not None
    assert torch.isfinite(leaf.grad).all()
    assert not leaf.grad[mask == 0].any()


def by_samples(compute: Callable[..., list[float]], mask_BT: Tensor, *tensors_BT: Tensor) -> Tensor:
    """Apply `compute` to the lists of each sample's valid tokens and scatter the answers back."""
    result_BT = torch.zeros(mask_BT.shape, dtype=torch.float64)
    for b, mask_T in enumerate(mask_BT):
        where = [t for t, counts in enumerate(mask_T.tolist()) if counts]
        answers = compute(*([float(x_BT[b, t]) for t in where] for x_BT in tensors_BT))
        for t, answer in zip(where, answers, strict=True):
            result_BT[b, t] = answer
    return result_BT


def gae_of_one(rewards: list[float], values: list[float], *, gamma: float, lam: float) -> list[float]:
    """The definition: A_t = sum over l of (gamma lam)^l delta_t+l."""
    after = [*values, 0.0][1:]
    deltas = [r + gamma * v_next - v for r, v, v_next in zip(rewards, values, after, strict=True)]
    return [sum((gamma * lam) ** (k - t) * deltas[k] for k in range(t, len(deltas))) for t in range(len(deltas))]


def ppo_of_one(
    logp: float, old: float, advantage: float, *, low: float, high: float, c: float | None
) -> tuple[float, bool, bool]:
    """Loss of a token, clipped?, bounded by the dual clip?"""
    ratio = math.exp(logp - old)
    free, clipped = -advantage * ratio, -advantage * min(max(ratio, 1 - low), 1 + high)
    loss = max(free, clipped)
    bounded = c is not None and advantage < 0 and loss > -advantage * c
    return (-advantage * c if bounded and c is not None else loss), clipped > free, bounded


def aggregate_of(loss_BT: Tensor, mask_BT: Tensor, *, mode: str, horizon: int) -> float:
    sums = [[float(x) for x, m in zip(row, mask, strict=True) if m] for row, mask in zip(loss_BT, mask_BT, strict=True)]
    live = [row for row in sums if row]
    tokens = sum(len(row) for row in live)
    return {
        "token-mean": sum(map(sum, live)) / tokens,
        "seq-mean-token-sum": sum(map(sum, live)) / len(live),
        "seq-mean-token-mean": sum(sum(row) / len(row) for row in live) / len(live),
        "seq-mean-token-sum-norm": sum(map(sum, live)) / len(live) / horizon,
    }[mode]
