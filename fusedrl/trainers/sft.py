"""Supervised fine-tuning on prompt and answer pairs, on the same pipeline, layouts and checkpoints as PPO.

The loss counts answer tokens (and the end) only; of held-out rows it is told as val/loss.

Shapes: B rows, S tokens of a row, R response tokens.
"""

from dataclasses import dataclass

from torch import Tensor

from fusedrl.config.budgets import Budget, sft_budget
from fusedrl.config.schema import SFTConfig
from fusedrl.data.sft import Batch, collate
from fusedrl.models.logprob import token_log_probs
from fusedrl.pipeline.executor import Work
from fusedrl.pipeline.microbatch import MicroBatch, gather_microbatches
from fusedrl.pipeline.stage import LossFunction
from fusedrl.pipeline.tokens import next_tokens
from fusedrl.rl.aggregate import aggregate, normalizer
from fusedrl.rl.alignment import label_mask
from fusedrl.rl.masked import count, masked_sum
from fusedrl.trainers.cutting import replica_groups
from fusedrl.trainers.forward import Inference, log_probs
from fusedrl.trainers.one_model import OneModelRun, held_out_samples, in_batches
from fusedrl.trainers.prompting import ExampleSource
from fusedrl.trainers.roles import Role


@dataclass(eq=False, kw_only=True)
class SFT(OneModelRun):
    """An SFT run on this rank."""

    config: SFTConfig
    source: ExampleSource

    def step(self) -> tuple[dict[str, float], int]:
        batch = self.source.next(self.config.data.train_batch_size)
        rows, budget = self.config.data.micro_batch_size_per_gpu, sft_budget(self.config)
        microbatches = label_batches(self.model, batch, micro_batch=rows, budget=budget)
        work = Work(microbatches, loss=sft_loss(self.model, batch.label_mask_BS))
        found, of_step = self.optimize(work)
        named = {name if "/" in name else f"train/{name}": value for name, value in of_step.items()}
        return found | named, int(batch.lengths_B.sum())

    def validate(self) -> dict[str, float]:
        """Mean negative log-likelihood of the labels of all held-out rows."""
        data, total, labels = self.config.data, 0.0, 0.0
        dp, held_out = self.model.layout.dp, self.source.validation
        for examples, given in in_batches(held_out, size=data.train_batch_size, multiple=dp):
            batch = collate(examples, pad_id=self.source.pad_id)
            prompt_lengths_B = batch.lengths_B - batch.label_mask_BS.sum(dim=1)
            samples = held_out_samples(batch.tokens_BS, lengths_B=batch.lengths_B, prompt_lengths_B=prompt_lengths_B)
            collect = log_probs(self.model, temperature=1.0, width=samples.width, with_entropy=False)
            rows, budget = data.micro_batch_size_per_gpu, sft_budget(self.config)
            inference = Inference(self.model, rows, ("logp",), samples.width, collect, budget)
            logp_BR, mask_BR = self.infer(inference, samples)["logp"][:given], samples.mask_BR[:given]
            total -= float(masked_sum(logp_BR.double(), mask_BR))
            labels += float(count(mask_BR))
        return {"val/loss": total / labels} if labels else {}


def label_batches(model: Role, batch: Batch, *, micro_batch: int, budget: Budget | None) -> list[MicroBatch]:
    """This replica's micro-batches of a batch."""
    groups = replica_groups(model, batch.lengths_B, micro_batch=micro_batch, budget=budget)
    fields, device = {"label_mask": batch.label_mask_BS}, model.device
    return gather_microbatches(batch.tokens_BS, lengths_B=batch.lengths_B, groups=groups, fields=fields, device=device)


def sft_loss(model: Role, label_mask_BS: Tensor, *, weight: float = 1.0, metric: str = "train/loss") -> LossFunction:
    """Mean negative log-likelihood of the labels of the whole batch, whose mask is given, times `weight`; the metric is
    told without it."""
    labels = normalizer(label_mask(label_mask_BS), mode="token-mean")

    tokens, options = model.pipeline.tokens, {"tp_group": model.groups.tp, "vocab_size": model.vocab_size}

    def loss(logits: Tensor, batch: MicroBatch) -> tuple[Tensor, dict[str, Tensor]]:
        logp = token_log_probs(logits, next_tokens(tokens, batch), **options)
        logp_BS = tokens.spread(logp, batch)[:, :-1]  # the last token predicts none
        share = aggregate(-logp_BS, label_mask(batch["label_mask"]), normalizer=labels)
        return weight * share, {metric: share.detach()}

    return loss
