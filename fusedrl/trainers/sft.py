"""Supervised fine-tuning on prompt and answer pairs, on the same pipeline, layouts and checkpoints as PPO.

    rows -> micro-batches -> one pass, F and B -> optimizer step;  the loss counts answer tokens (and the end) only

Shapes: B rows, S tokens of a row.
"""

from dataclasses import dataclass, field

from torch import Tensor

from fusedrl.config.budgets import sft_budget
from fusedrl.config.schema import SFTConfig
from fusedrl.data.sft import Batch
from fusedrl.models.logprob import token_log_probs
from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.microbatch import MicroBatch, gather_microbatches
from fusedrl.pipeline.results import gather_report
from fusedrl.pipeline.stage import LossFunction
from fusedrl.pipeline.tokens import next_tokens
from fusedrl.pipeline.training import train_pass
from fusedrl.rl.aggregate import aggregate, normalizer
from fusedrl.rl.alignment import label_mask
from fusedrl.telemetry.logger import MetricsLogger
from fusedrl.telemetry.rates import memory, rates
from fusedrl.telemetry.timers import Timers
from fusedrl.trainers.cutting import replica_groups
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.prompting import ExampleSource
from fusedrl.trainers.roles import Role, TrainedRole


@dataclass(eq=False)
class SFT:
    """An SFT run on this rank."""

    config: SFTConfig
    source: ExampleSource
    model: TrainedRole
    executor: Executor
    planner: Planner
    logger: MetricsLogger
    timers: Timers = field(default_factory=Timers)

    def run(self, *, steps: int) -> dict[str, float]:
        """All steps; the last one's metrics."""
        metrics: dict[str, float] = {}
        for step in range(1, steps + 1):
            batch = self.source.next(self.config.data.train_batch_size)
            with self.timers("step"):
                metrics = self.step(batch)
            tokens = int(batch.lengths_B.sum())
            timing = self.timers.collect()
            metrics |= (
                timing | rates(timing, tokens=tokens, response_tokens=0, ranks=self.model.layout.world) | memory()
            )
            self.logger.log(metrics, step=step)
        return metrics

    def step(self, batch: Batch) -> dict[str, float]:
        """One optimizer step. A collective of all ranks."""
        work = Work(self._microbatches(batch), loss=sft_loss(self.model, batch.label_mask_BS))
        program = self.planner.program({self.model.name: (self.model, work)})
        result = train_pass(
            self.executor, program, {self.model.name: work}, models={self.model.name: self.model.trained}
        )
        report = gather_report(self.executor, program, result)
        info = self.model.trained.step()
        return report.metrics[self.model.name] | {
            "train/grad_norm": info.grad_norm,
            "train/lr": info.lr,
            "perf/bubble_ratio/planned": report.planned_bubble,
            "perf/bubble_ratio/measured": report.measured_bubble,
        }

    def _microbatches(self, batch: Batch) -> list[MicroBatch]:
        rows, budget = self.config.data.micro_batch_size_per_gpu, sft_budget(self.config)
        groups = replica_groups(self.model, batch.lengths_B, micro_batch=rows, budget=budget)
        fields, device = {"label_mask": batch.label_mask_BS}, self.model.device
        return gather_microbatches(
            batch.tokens_BS, lengths_B=batch.lengths_B, groups=groups, fields=fields, device=device
        )


def sft_loss(model: Role, label_mask_BS: Tensor) -> LossFunction:
    """Mean negative log-likelihood of the labels of the whole batch, whose mask is given."""
    labels = normalizer(label_mask(label_mask_BS), mode="token-mean")

    tokens, options = model.pipeline.tokens, {"tp_group": model.groups.tp, "vocab_size": model.vocab_size}

    def loss(logits: Tensor, batch: MicroBatch) -> tuple[Tensor, dict[str, Tensor]]:
        logp = token_log_probs(logits, next_tokens(tokens, batch), **options)
        logp_BS = tokens.spread(logp, batch)[:, :-1]  # the last token predicts none
        share = aggregate(-logp_BS, label_mask(batch["label_mask"]), normalizer=labels)
        return share, {"train/loss": share.detach()}

    return loss
