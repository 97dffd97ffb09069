"""Estimates of KL(policy || reference) from sampled tokens, and controllers of its coefficient.

With d = logp - ref_logp on tokens drawn from the policy (Schulman, "Approximating KL divergence", 2020):

    k1 = d            unbiased, may be negative          (verl: kl)
    k2 = d^2 / 2      biased, its gradient is unbiased   (verl: mse)
    k3 = e^-d + d - 1 unbiased, never negative           (verl: low_var_kl)
    abs = |d|

A name that ends in "+" (k1+, k3+, ...) keeps its value and takes k2's gradient, straight through: the gradients of k1
and k3 themselves are not those of the KL (of k1 the expectation is even 0).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from fusedrl.rl.masked import check_shapes, select

# verl's clamps of low_var_kl; they touch k3 alone, which has an exponential to guard
LOG_RATIO_CLAMP = 20.0
VALUE_CLAMP = 10.0

ALIASES = {"kl": "k1", "mse": "k2", "low_var_kl": "k3"}
KINDS = ("k1", "k2", "k3", "abs", *ALIASES)


def estimate(
    logp: Tensor,
    ref_logp: Tensor,
    mask: Tensor,
    *,
    kind: str,
    straight_through: bool = False,
    log_ratio_clamp: float | None = LOG_RATIO_CLAMP,
    value_clamp: float | None = VALUE_CLAMP,
) -> Tensor:
    """KL per token, in nats, the shape of `logp`; 0 at masked tokens. A trailing "+" of `kind` means straight-through.

    The clamps belong to k3: its log-ratio to +-`log_ratio_clamp`, then its value to +-`value_clamp`; None: unclamped.
    """
    name, through = _parse(kind)
    check_shapes(mask, logp=logp, ref_logp=ref_logp)
    d = select(logp, mask) - select(ref_logp, mask)
    value = _FORWARD[name](d) if name != "k3" else _k3(d, log_ratio_clamp=log_ratio_clamp, value_clamp=value_clamp)
    if straight_through or through:
        gradient = _k2(d)
        value = value.detach() + (gradient - gradient.detach())
    return value


def _parse(kind: str) -> tuple[str, bool]:
    name = kind.removesuffix("+")
    name = ALIASES.get(name, name)
    if name not in (*_FORWARD, "k3"):
        raise ValueError(f"kl kind {kind!r} is unknown: take one of {', '.join(KINDS)}, with '+' for straight-through")
    return name, kind.endswith("+")


def _k2(d: Tensor) -> Tensor:
    return 0.5 * d.square()


def _k3(d: Tensor, *, log_ratio_clamp: float | None, value_clamp: float | None) -> Tensor:
    log_ratio = -d if log_ratio_clamp is None else (-d).clamp(-log_ratio_clamp, log_ratio_clamp)
    value = log_ratio.expm1() - log_ratio  # expm1: near 0 the terms of e^x - x - 1 cancel
    return value if value_clamp is None else value.clamp(-value_clamp, value_clamp)


_FORWARD: dict[str, Callable[[Tensor], Tensor]] = {"k1": lambda d: d, "k2": _k2, "abs": lambda d: d.abs()}


@dataclass(frozen=True)
class FixedController:
    """A coefficient that stays (verl: kl_ctrl.type=fixed)."""

    coef: float

    def update(self, kl: float, *, samples: int) -> "FixedController":
        return self


@dataclass(frozen=True)
class AdaptiveController:
    """Ziegler et al. 2019, section 2.2: the coefficient follows the KL towards `target` (verl: kl_ctrl.type=adaptive).

    coef <- coef * (1 + clip(kl / target - 1, -0.2, 0.2) * samples / horizon)
    """

    coef: float
    target: float
    horizon: float

    def __post_init__(self) -> None:
        for key, value in (("target_kl", self.target), ("horizon", self.horizon)):
            if not value > 0:
                raise ValueError(f"algorithm.kl_ctrl.{key} is {value}: it is divided by; make it > 0")

    def update(self, kl: float, *, samples: int) -> "AdaptiveController":
        """The controller after a batch of `samples` samples of mean KL `kl`; ValueError if that is not finite."""
        if not math.isfinite(kl):
            raise ValueError(f"KL of the batch is {kl}: the coefficient cannot follow it (it would stay {kl} for good)")
        error = min(max(kl / self.target - 1.0, -0.2), 0.2)
        return replace(self, coef=self.coef * (1.0 + error * samples / self.horizon))
