"""Training of a reward model on pairs of a chosen and a rejected response, on the same pipeline and layouts as PPO.

A response's reward is the model's output at the row's last token, read by the function by which PPO reads it; both rows
of a pair are in one micro-batch. The exported folder is PPO's reward_model.model.path, and its critic may start there.

Shapes: P pairs, B = 2P rows (chosen, rejected, chosen, ...), S tokens of a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fusedrl.config.budgets import Budget, rm_budget
from fusedrl.config.schema import RMConfig
from fusedrl.data.pairs import Pair, PairBatch, collate
from fusedrl.pipeline.executor import Work
from fusedrl.pipeline.microbatch import MicroBatch, gather_microbatches
from fusedrl.pipeline.stage import LossFunction
from fusedrl.rl.preference import bradley_terry, with_deviations
from fusedrl.trainers.cutting import replica_groups
from fusedrl.trainers.forward import Inference, last_scores
from fusedrl.trainers.one_model import OneModelRun, held_out_samples, in_batches
from fusedrl.trainers.pairing import PairSource
from fusedrl.trainers.roles import Role


@dataclass(eq=False, kw_only=True)
class RM(OneModelRun):
    """The training of a reward model on this rank."""

    config: RMConfig
    source: PairSource

    def step(self) -> tuple[dict[str, float], int]:
        batch = self.source.next(self.config.data.train_batch_size)
        work = Work(pair_microbatches(batch, role=self.model, config=self.config), loss=self._loss(batch.pairs))
        found, of_step = self.optimize(work)
        named = {name if "/" in name else f"rm/{name}": value for name, value in of_step.items()}
        return with_deviations(found, pairs=batch.pairs) | named, int(batch.lengths_B.sum())

    def validate(self) -> dict[str, float]:
        """Accuracy, margin and loss of all held-out pairs."""
        held_out = self.source.validation
        if not held_out:
            return {}
        chosen_P, rejected_P = self.rewards(held_out).unbind(dim=1)
        margins_P = torch.tensor([pair.margin for pair in held_out])
        loss, found = bradley_terry(chosen_P, rejected_P, margins_P=margins_P, center=self._center)
        named = {"val-core/accuracy": "rm/accuracy", "val/margin": "rm/margin"}
        return {"val/loss": float(loss)} | {ours: float(found[name]) for ours, name in named.items()}

    def rewards(self, pairs: Sequence[Pair]) -> Tensor:
        """fp32 [P, 2], chosen and rejected, on every rank. A collective of all ranks."""
        data, found = self.config.data, []
        for part, given in in_batches(pairs, size=data.train_batch_size, multiple=self.model.layout.dp):
            batch = collate(part, pad_id=self.source.pad_id)
            inference = Inference(
                self.model, 2 * data.micro_batch_size_per_gpu, ("reward",), 1, last_scores(self.model), self._row_budget
            )
            samples = held_out_samples(
                batch.tokens_BS, lengths_B=batch.lengths_B, prompt_lengths_B=batch.prompt_lengths_B
            )
            found.append(self.infer(inference, samples)["reward"].view(-1, 2)[:given])
        return torch.cat(found)

    def _loss(self, pairs: int) -> LossFunction:
        return pair_loss(self.model, center=self._center, pairs=pairs)

    @property
    def _center(self) -> float:
        return self.config.loss.center_rewards_coefficient

    @property
    def _row_budget(self) -> Budget | None:
        """Of single rows: forward alone, rows of a pair need not be together."""
        budget = rm_budget(self.config)
        return None if budget is None else replace(budget, rows=1)


def pair_microbatches(batch: PairBatch, *, role: Role, config: RMConfig) -> list[MicroBatch]:
    """This rank's micro-batches; a pair's rows are neighbours in one of them."""
    micro_batch, budget = config.data.micro_batch_size_per_gpu, rm_budget(config)
    groups = replica_groups(role, batch.lengths_P, micro_batch=micro_batch, budget=budget)
    rows = [torch.stack([2 * pairs, 2 * pairs + 1], dim=1).flatten() for pairs in groups]
    fields = {"lengths": batch.lengths_B, "margins": batch.margins_P.repeat_interleave(2)}
    return gather_microbatches(
        batch.tokens_BS, lengths_B=batch.lengths_B, groups=rows, fields=fields, device=role.device
    )


def pair_loss(model: Role, *, center: float, pairs: int) -> LossFunction:
    """Bradley-Terry's loss. `pairs`: of the whole batch."""
    last = last_scores(model)

    def loss(scores: Tensor, batch: MicroBatch) -> tuple[Tensor, dict[str, Tensor]]:
        chosen_P, rejected_P = last(scores, batch).view(-1, 2).unbind(dim=1)
        return bradley_terry(chosen_P, rejected_P, margins_P=batch["margins"][::2], center=center, pairs=pairs)

    return loss
