"""What the trainers of one model share (SFT, reward model): the loop, an optimizer step, passes over held-out rows.

    rows -> micro-batches -> one pass, F and B -> optimizer step;  every test_freq steps: validation, forward only

Shapes: B rows, S tokens of a row, R response tokens.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from fusedrl.config.schema import OneModelConfig
from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.results import gather_report
from fusedrl.pipeline.training import train_pass
from fusedrl.rl.alignment import response_mask
from fusedrl.telemetry.logger import MetricsLogger
from fusedrl.telemetry.rates import memory, rates
from fusedrl.telemetry.timers import Timers
from fusedrl.trainers.checkpointing import Checkpoints
from fusedrl.trainers.forward import Inference, infer
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.roles import TrainedRole
from fusedrl.trainers.samples import Samples

Item = TypeVar("Item")


@dataclass(eq=False, kw_only=True)
class OneModelRun(ABC):
    """A run on this rank."""

    config: OneModelConfig
    model: TrainedRole
    executor: Executor
    planner: Planner
    logger: MetricsLogger
    checkpoints: Checkpoints
    timers: Timers = field(default_factory=Timers)

    @abstractmethod
    def step(self) -> tuple[dict[str, float], int]:
        """An optimizer step on the next rows: its metrics, and how many tokens they have. A collective of all ranks."""

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """Metrics of the held-out rows, empty without any. A collective of all ranks."""

    def run(self, *, steps: int) -> dict[str, float]:
        """All steps that are left, each `test_freq` of them and the last one validated; the last one's metrics, none
        where a saved state has all steps."""
        metrics: dict[str, float] = {}
        every = self.config.trainer.test_freq
        for step in range(self.checkpoints.first, steps + 1):
            with self.timers("step"):
                metrics, tokens = self.step()
            timing = self.timers.collect()
            world = self.model.layout.world
            metrics |= timing | rates(timing, tokens=tokens, response_tokens=0, ranks=world) | memory()
            if step == steps or (every > 0 and step % every == 0):
                with self.timers("testing"):
                    found = self.validate()
                metrics |= found | (self.timers.collect() if found else {})
            self.logger.log(metrics, step=step)
            with self.timers("save_checkpoint"):
                self.checkpoints.step_done(step, last=step == steps, values={})
        self.checkpoints.finish()
        return metrics

    def optimize(self, work: Work) -> tuple[dict[str, float], dict[str, float]]:
        """One pass and one optimizer step: (summed metrics of the loss, those of the step and the pass)."""
        name = self.model.name
        program = self.planner.program({name: (self.model, work)})
        result = train_pass(self.executor, program, {name: work}, models={name: self.model.trained})
        report = gather_report(self.executor, program, result)
        info = self.model.trained.step()
        return report.metrics[name], {
            "grad_norm": info.grad_norm,
            "lr": info.lr,
            "skipped": float(not info.success),
            "perf/bubble_ratio/planned": report.planned_bubble,
            "perf/bubble_ratio/measured": report.measured_bubble,
        }

    def infer(self, inference: Inference, samples: Samples) -> dict[str, Tensor]:
        """The model's results on held-out rows, as PPO computes them."""
        return infer({self.model.name: inference}, samples, executor=self.executor, planner=self.planner)


def in_batches(items: Sequence[Item], *, size: int, multiple: int) -> Iterator[tuple[list[Item], int]]:
    """(batch, how many of its items count): the last batch repeats its last item up to a multiple."""
    for first in range(0, len(items), size):
        batch = list(items[first : first + size])
        count = len(batch)
        yield batch + [batch[-1]] * (-count % multiple), count


def held_out_samples(tokens_BS: Tensor, *, lengths_B: Tensor, prompt_lengths_B: Tensor) -> Samples:
    """Rows of prompt and response as samples that no engine made."""
    responses_B = lengths_B - prompt_lengths_B
    mask_BR = response_mask(responses_B, width=int(responses_B.max()))
    return Samples(tokens_BS, prompt_lengths_B, responses_B, mask_BR, rollout_logp_BR=torch.zeros(mask_BR.shape))
