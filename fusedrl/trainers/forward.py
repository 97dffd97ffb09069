"""Forward-only passes over the samples of a step: log-probabilities, entropy, values, reward-model scores.

All models run in one pass, interleaved like a training step, those on other ranks beside them; each gives a tensor per
sample. Every rank ends up with the whole result: a rank fills in the rows that its last stage computed, zeros
elsewhere, and one sum over the team puts them together (x + 0 is exact).

Shapes: B samples, S tokens of a row, R response tokens, V vocabulary (this rank's part).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.config.budgets import Budget
from fusedrl.models.logprob import entropy, token_log_probs
from fusedrl.parallel.team import current
from fusedrl.pipeline.executor import Executor, Work
from fusedrl.pipeline.microbatch import MicroBatch, gather_microbatches
from fusedrl.pipeline.tokens import next_tokens
from fusedrl.rl.alignment import outputs_for_response
from fusedrl.trainers.cutting import replica_groups
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.roles import Role
from fusedrl.trainers.samples import Samples

Collect = Callable[[Tensor, MicroBatch], Tensor]
"""(last stage's output, micro-batch) -> [b, K, W]: K named results a sample, W wide (R, or 1 for a score)."""


@dataclass(frozen=True, eq=False)
class Inference:
    """One model's part of a pass: its micro-batch size in samples, or a budget of tokens instead, and what to keep,
    K results named by `names`. samples: the pass's in this model's own tokens, where it has others."""

    role: Role
    micro_batch: int
    names: tuple[str, ...]
    width: int
    collect: Collect
    budget: Budget | None = None
    samples: Samples | None = None


def log_probs(role: Role, *, temperature: float, width: int, with_entropy: bool) -> Collect:
    """Log-probability of each response token, and the entropy of its distribution where asked for."""

    tokens = role.pipeline.tokens

    def collect(logits: Tensor, microbatch: MicroBatch) -> Tensor:
        options = {"tp_group": role.groups.tp, "vocab_size": role.vocab_size, "temperature": temperature}
        found = [token_log_probs(logits, next_tokens(tokens, microbatch), **options)]
        if with_entropy:
            found.append(entropy(logits, **options))
        found_BS = [tokens.spread(each, microbatch)[:, :-1] for each in found]  # the last token predicts none
        prompts_B = microbatch["prompt_lengths"]
        return torch.stack([outputs_for_response(x_BS, prompts_B, width=width) for x_BS in found_BS], dim=1)

    return collect


def values(role: Role, *, width: int) -> Collect:
    """The critic's value before each response token."""

    def collect(values: Tensor, microbatch: MicroBatch) -> Tensor:
        values_BS = role.pipeline.tokens.spread(values.squeeze(-1).float(), microbatch)
        return outputs_for_response(values_BS, microbatch["prompt_lengths"], width=width)[:, None]

    return collect


def last_scores(role: Role, *, weight: float = 1.0) -> Collect:
    """A reward model's score, times its weight: its output at the row's last token, K = R = 1."""

    def collect(scores: Tensor, microbatch: MicroBatch) -> Tensor:
        scores_BS = role.pipeline.tokens.spread(scores.squeeze(-1).float(), microbatch)
        last_B = microbatch["lengths"] - 1
        return weight * scores_BS.gather(1, last_B[:, None])[:, None]

    return collect


def infer(
    inferences: Mapping[str, Inference], samples: Samples, *, executor: Executor, planner: Planner
) -> dict[str, Tensor]:
    """Each named result as [B, W] in CPU memory, on every rank. A collective of the current team."""
    inferences = {each.role.name: each for each in inferences.values()}
    read = {name: each.samples or samples for name, each in inferences.items()}
    groups = {
        name: replica_groups(each.role, read[name].lengths_B, micro_batch=each.micro_batch, budget=each.budget)
        for name, each in inferences.items()
    }
    work = {
        name: Work(microbatches(read[name], groups[name], device=each.role.device), collect=each.collect)
        for name, each in inferences.items()
    }
    program = planner.program({name: (each.role, work[name]) for name, each in inferences.items()})
    outputs = executor.run(program, work).models
    found: dict[str, Tensor] = {}
    for name, each in inferences.items():
        whole_BKW = _everywhere(outputs[name].outputs, groups[name], inference=each, size=samples.size)
        found |= dict(zip(each.names, whole_BKW.unbind(dim=1), strict=True))
    return found


def microbatches(samples: Samples, groups: Sequence[Tensor], *, device: torch.device) -> list[MicroBatch]:
    """A micro-batch of the rows of each group, with the lengths that collecting needs."""
    lengths_B = samples.lengths_B
    fields = {"prompt_lengths": samples.prompt_lengths_B, "lengths": lengths_B}
    return gather_microbatches(samples.tokens_BS, lengths_B=lengths_B, groups=groups, fields=fields, device=device)


def _everywhere(outputs: Mapping[int, Tensor], groups: Sequence[Tensor], *, inference: Inference, size: int) -> Tensor:
    """[B, K, W] on all ranks from the micro-batches' results on last stages. groups: the micro-batches' rows."""
    whole_BKW = torch.zeros(size, len(inference.names), inference.width, device=inference.role.device)
    if outputs and inference.role.pipeline.speaks(dist.get_rank()):
        rows_N = torch.cat(list(groups)).to(whole_BKW.device)
        whole_BKW[rows_N] = torch.cat([outputs[m] for m in sorted(outputs)]).float()
    dist.all_reduce(whole_BKW, group=current().group)
    return whole_BKW.cpu()
