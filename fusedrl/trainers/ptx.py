"""PPO-ptx (arXiv 2203.02155): beside the policy loss the actor learns given answers, so that it does not forget
them.

Each optimizer step takes its own rows; which ones follows from its number in the run, so a resumed run takes the same.
Their micro-batches are further ones of the actor's in the same pass (Learner.beside).
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from fusedrl.config.budgets import Budget
from fusedrl.config.schema import PPOConfig, SFTDataConfig
from fusedrl.data.sft import Batch
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.pass_run import Work
from fusedrl.pipeline.stage import Metrics
from fusedrl.trainers.prompting import ExampleSource, example_source
from fusedrl.trainers.roles import Role
from fusedrl.trainers.sft import label_batches, sft_loss

METRIC = "actor/ptx_loss"


@dataclass(frozen=True, eq=False)
class Ptx:
    """Rows to learn beside. size: of an optimizer step; steps: optimizer steps in a step of PPO."""

    source: ExampleSource
    size: int
    steps: int
    coeff: float

    def beside(self, role: Role, *, step: int, micro_batch: int, budget: Budget | None) -> Callable[[int], Work]:
        """By the number of an optimizer step in PPO's `step`: its rows as this replica's micro-batches, and their loss
        times the coefficient. `step` counts from 1, the number from 0."""

        def work(number: int) -> Work:
            batch = self.rows(step, number)
            microbatches = label_batches(role, batch, micro_batch=micro_batch, budget=budget)
            return Work(microbatches, loss=sft_loss(role, batch.label_mask_BS, weight=self.coeff, metric=METRIC))

        return work

    def rows(self, step: int, number: int) -> Batch:
        """What an optimizer step learns beside, on all replicas together."""
        self.source.sampler.position = ((step - 1) * self.steps + number) * self.size
        return self.source.next(self.size)


def make_ptx(config: PPOConfig, tokenizer: Tokenizer, *, steps: int) -> Ptx | None:
    """None where the coefficient is 0. Raises ValueError naming the file and line of a row that cannot be used."""
    actor, data = config.actor_rollout_ref.actor, config.data
    if not actor.ptx.coeff:
        return None
    rows = SFTDataConfig(
        train_files=actor.ptx.files,
        max_length=actor.ptx.max_length,
        truncation=data.truncation,
        shuffle=data.shuffle,
        seed=data.seed,
    )
    size = actor.ptx.batch_size or actor.ppo_mini_batch_size
    return Ptx(example_source(rows, tokenizer), size, steps, actor.ptx.coeff)


def joined(work: Work, more: Work) -> Work:
    """Both as one model's work of a pass: each micro-batch keeps the loss of its own."""
    of_more, loss, other = {id(each) for each in more.microbatches}, work.loss, more.loss
    assert loss is not None
    assert other is not None

    def either(output: Tensor, microbatch: MicroBatch) -> tuple[Tensor, Metrics]:
        return (other if id(microbatch) in of_more else loss)(output, microbatch)

    return Work([*work.microbatches, *more.microbatches], loss=either)
