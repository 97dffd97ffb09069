"""Drawing the next token of each row, and its log-probability under the policy that the trainer sees.

The log-probability is that of the temperature-scaled softmax over the whole real vocabulary, *before* top-k and top-p:
it is what the trainer recomputes (`fusedrl.models.logprob.token_log_probs(temperature=...)`), so that the importance
ratio of an unchanged policy is 1 with truncation too. Greedy rows (temperature 0) report it at temperature 1.

    logits -> / temperature -> log-softmax -> keep top k -> keep the smallest set with mass >= top p -> inverse CDF(u)

Legend: R rows, V real vocabulary, P padded vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How the tokens of a request are drawn; names and defaults as verl's `rollout` keys."""

    temperature: float = 1.0  # 0: greedy
    top_p: float = 1.0
    top_k: int = -1  # -1: off
    max_tokens: int = 16  # response tokens, the stop token included
    stop_token_ids: frozenset[int] = frozenset()
    seed: int = 0
    step: int = 0  # training step: the same sample id draws anew at each step

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop_token_ids", frozenset(self.stop_token_ids))
        if self.temperature < 0:
            raise ValueError(f"rollout.temperature={self.temperature}: must be >= 0 (0 is greedy)")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"rollout.top_p={self.top_p}: must lie in (0, 1]; 1 turns it off")
        if self.top_k != -1 and self.top_k < 1:
            raise ValueError(f"rollout.top_k={self.top_k}: must be >= 1, or -1 to turn it off")
        if self.max_tokens < 0:
            raise ValueError(f"max_tokens={self.max_tokens}: must be >= 0")

    def at_step(self, step: int) -> "SamplingParams":
        """The same parameters at another training step."""
        return replace(self, step=step)


@dataclass(frozen=True)
class Controls:
    """The sampling parameters of a batch of rows as tensors, and which work they make needless."""

    temperature_R1: Tensor  # fp32; 1 on greedy rows
    greedy_R: Tensor  # bool
    top_k_R1: Tensor  # int64; the vocabulary's size where off
    top_p_R1: Tensor  # fp64
    any_greedy: bool
    any_drawn: bool
    scaled: bool
    truncated: bool

    @staticmethod
    def of(params: Sequence[SamplingParams], *, vocab_size: int, device: torch.device | str = "cpu") -> "Controls":
        """Controls of one row per element of `params`."""
        greedy = [p.temperature == 0 for p in params]
        temperature = [p.temperature or 1.0 for p in params]
        top_k = [vocab_size if p.top_k == -1 else min(p.top_k, vocab_size) for p in params]
        top_p = [p.top_p for p in params]
        return Controls(
            temperature_R1=torch.tensor(temperature, dtype=torch.float32, device=device)[:, None],
            greedy_R=torch.tensor(greedy, dtype=torch.bool, device=device),
            top_k_R1=torch.tensor(top_k, dtype=torch.int64, device=device)[:, None],
            top_p_R1=torch.tensor(top_p, dtype=torch.float64, device=device)[:, None],
            any_greedy=any(greedy),
            any_drawn=not all(greedy),
            scaled=any(t != 1.0 for t in temperature),
            truncated=any(k < vocab_size or p < 1 for k, p, g in zip(top_k, top_p, greedy, strict=True) if not g),
        )


def sample(logits_RP: Tensor, uniform_R: Tensor, *, controls: Controls, vocab_size: int) -> tuple[Tensor, Tensor]:
    """(token_R int64, logp_R fp32): one token a row. Padded entries of the vocabulary are never drawn nor counted."""
    logits_RV = logits_RP[:, :vocab_size].float()
    if controls.scaled:
        logits_RV = logits_RV / controls.temperature_R1
    logp_RV = torch.log_softmax(logits_RV, dim=-1)
    token_R = _choose(logp_RV, uniform_R, controls=controls)
    return token_R, logp_RV.gather(1, token_R[:, None]).squeeze(1)


def kept(logp_RV: Tensor, *, top_k_R1: Tensor, top_p_R1: Tensor) -> Tensor:
    """keep_RV: the tokens that top-k, then top-p over the renormalised rest, leave in.

    Equal probabilities go by the smaller token id, so that top-k keeps exactly k. Top-p keeps the token that crosses p.
    """
    sorted_RV, order_RV = logp_RV.sort(dim=-1, descending=True, stable=True)
    rank_V = torch.arange(logp_RV.shape[1], device=logp_RV.device)
    in_top_k_RV = rank_V < top_k_R1
    mass_RV = sorted_RV.double().exp() * in_top_k_RV
    before_RV = mass_RV.cumsum(dim=-1) - mass_RV
    in_top_p_RV = (before_RV < top_p_R1 * mass_RV.sum(dim=-1, keepdim=True)) | (top_p_R1 >= 1)
    return torch.zeros_like(in_top_k_RV).scatter(1, order_RV, in_top_k_RV & in_top_p_RV)


def _choose(logp_RV: Tensor, uniform_R: Tensor, *, controls: Controls) -> Tensor:
    if not controls.any_drawn:
        return logp_RV.argmax(dim=-1)
    mass_RV = logp_RV.exp()
    if controls.truncated:
        mass_RV = mass_RV * kept(logp_RV, top_k_R1=controls.top_k_R1, top_p_R1=controls.top_p_R1)
    token_R = _inverse_cdf(mass_RV, uniform_R)
    return torch.where(controls.greedy_R, logp_RV.argmax(dim=-1), token_R) if controls.any_greedy else token_R


def _inverse_cdf(mass_RV: Tensor, uniform_R: Tensor) -> Tensor:
    """First token whose cumulative mass exceeds u x total: a token without mass adds nothing and is never first."""
    cumulative_RV = mass_RV.cumsum(dim=-1, dtype=torch.float64)
    threshold_R = uniform_R * cumulative_RV[:, -1]
    return torch.searchsorted(cumulative_RV, threshold_R[:, None], right=True).squeeze(1)
