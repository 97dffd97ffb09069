"""PPO's losses as the pipeline's last stages compute them: output of the model -> this micro-batch's share.

Every loss is divided by the count over the whole mini-batch, on all data-parallel ranks, before backward. Shares of
micro-batches and ranks therefore add up to the loss, and so do their gradients. Where a model's output holds other
tokens than whole rows (fusedrl.pipeline.tokens), results a token are spread to rows first.

Shapes: B rows, S tokens of a row, R response tokens.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from fusedrl.config.schema import ActorConfig, CriticConfig
from fusedrl.models.logprob import entropy, token_log_probs
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.stage import LossFunction
from fusedrl.pipeline.tokens import next_tokens
from fusedrl.rl import losses
from fusedrl.rl.aggregate import normalizer
from fusedrl.rl.alignment import outputs_for_response
from fusedrl.rl.masked import working
from fusedrl.trainers.experience import WEIGHTS
from fusedrl.trainers.roles import Role


def policy_loss(config: ActorConfig, mask_BR: Tensor, *, actor: Role, temperature: float) -> LossFunction:
    """The actor's loss. `mask_BR` is the whole mini-batch's, for the normalizer."""
    whole = _whole(mask_BR, mode=config.loss_agg_mode)
    tokens = normalizer(mask_BR, mode="token-mean")
    options: dict[str, Any] = {
        "tp_group": actor.groups.tp,
        "vocab_size": actor.vocab_size,
        "temperature": temperature,
    }
    surrogate = _surrogate(config)
    tokens_of = actor.pipeline.tokens

    def loss(logits: Tensor, batch: MicroBatch) -> tuple[Tensor, dict[str, Tensor]]:
        mask_BR = batch["mask"]
        width = mask_BR.shape[1]

        def responses(results: Tensor) -> Tensor:
            results_BS = tokens_of.spread(results, batch)[:, :-1]  # the last token predicts none
            return outputs_for_response(results_BS, batch["prompt_lengths"], width=width)

        # of all positions: without the last, each function of the logits would make and keep a copy of them
        logp_BR = responses(token_log_probs(logits, next_tokens(tokens_of, batch), **options))
        total, metrics = surrogate(
            logp_BR,
            batch["old_logp"],
            batch["advantages"],
            mask_BR,
            tokens=tokens,
            weights_BT=batch.fields.get(WEIGHTS),
            **whole,
        )
        if config.entropy_coeff:
            bonus, found = losses.entropy(responses(entropy(logits, **options)), mask_BR, **whole)
            total, metrics = losses.total(total, entropy=bonus, entropy_coeff=config.entropy_coeff), metrics | found
        if config.use_kl_loss:
            kl, found = losses.kl_loss(logp_BR, batch["ref_logp"], mask_BR, kind=config.kl_loss_type, **whole)
            total, metrics = losses.total(total, kl_loss=kl, kl_loss_coef=config.kl_loss_coef), metrics | found
        return total, metrics

    return loss


def value_loss(config: CriticConfig, mask_BR: Tensor, *, critic: Role) -> LossFunction:
    """The critic's loss. `mask_BR` is the whole mini-batch's, for the normalizer."""
    whole = _whole(mask_BR, mode=config.loss_agg_mode)
    tokens = normalizer(mask_BR, mode="token-mean")

    def loss(values: Tensor, batch: MicroBatch) -> tuple[Tensor, dict[str, Tensor]]:
        mask_BR = batch["mask"]
        values_BS = critic.pipeline.tokens.spread(working(values.squeeze(-1)), batch)
        values_BR = outputs_for_response(values_BS, batch["prompt_lengths"], width=mask_BR.shape[1])
        return losses.value_loss(
            values_BR,
            batch["old_values"],
            batch["returns"],
            mask_BR,
            cliprange_value=config.cliprange_value,
            tokens=tokens,
            **whole,
        )

    return loss


def _surrogate(config: ActorConfig) -> Callable[..., tuple[Tensor, dict[str, Tensor]]]:
    """The policy loss that is configured, with its clip ranges."""
    low, high = config.clip_ratio_low, config.clip_ratio_high
    clip: dict[str, Any] = {
        "clip_ratio_low": config.clip_ratio if low is None else low,
        "clip_ratio_high": config.clip_ratio if high is None else high,
    }
    if config.policy_loss.loss_mode == "gspo":
        return partial(losses.gspo, **clip)
    return partial(losses.policy_loss, **clip, clip_ratio_c=config.clip_ratio_c)


def _whole(mask_BR: Tensor, *, mode: str) -> dict[str, Any]:
    """How a mini-batch is reduced: the mode and its count over all micro-batches and ranks."""
    return {"loss_agg_mode": mode, "normalizer": normalizer(mask_BR, mode=mode)}
