"""Partial rollout: a step trains the prompts whose samples are all finished; the others go on in the next step.

    over_sampling_batch_size prompts under way  ->  generation until train_batch_size of them are finished
        finished        the oldest train_batch_size prompts are trained, more than that wait for the next step
        not finished    carried: tokens, and the log-probabilities that they were drawn with; the next step prefills
                        them under its weights and goes on

A prompt's samples stay together. A carried sample keeps its number and the random numbers of the step it began in, so
what it becomes depends on the weights alone. Which samples are carried follows from tokens, not from clocks: a resumed
run carries the same. All of it is the same on every rank.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fusedrl.config.schema import AlgorithmConfig
from fusedrl.rollout.partial import generate_until
from fusedrl.rollout.requests import Completion, FinishReason, Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.trainers.generation import Generator
from fusedrl.trainers.prompting import PromptRow, PromptSource

Drawn = tuple[tuple[int, int], ...]
"""(step, tokens that its weights drew) of a sample, in order."""


@dataclass(frozen=True)
class Carried:
    """A sample so far; reason: None while unfinished."""

    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    reason: FinishReason | None = None
    drawn: Drawn = ()

    def after(self, step: int, found: Completion | Request) -> "Carried":
        """With what was drawn in a step."""
        reason = found.finish_reason if isinstance(found, Completion) else None
        tokens = found.tokens if isinstance(found, Completion) else found.response
        new = len(tokens) - len(self.tokens)
        return Carried(tokens, found.logprobs, reason, (*self.drawn, (step, new)) if new else self.drawn)

    def stale_tokens(self, step: int) -> int:
        """Tokens that weights of earlier steps drew."""
        return sum(count for drawn_in, count in self.drawn if drawn_in < step)


@dataclass(frozen=True)
class Group:
    """The samples of one prompt. number: of the prompt among all that the run has drawn; row: of the training rows;
    born: the step it was drawn in."""

    number: int
    row: int
    born: int
    samples: tuple[Carried, ...]

    @property
    def whole(self) -> bool:
        return all(sample.reason is not None for sample in self.samples)

    def ids(self) -> range:
        """Sample ids, which no other sample of the run has."""
        return range(self.number * len(self.samples), (self.number + 1) * len(self.samples))


@dataclass(eq=False)
class PartialRollout:
    """batch: prompts that a step trains; in_flight: prompts under way, finished ones that wait among them. longest:
    response tokens of a sample."""

    prompts: PromptSource
    generator: Generator
    n: int
    batch: int
    in_flight: int
    longest: int
    groups: list[Group] = field(default_factory=list)  # older first

    def run(self, step: int, *, params: SamplingParams) -> tuple[list[PromptRow], list[Completion], dict[str, float]]:
        """The prompts that a step trains, n completions of each, neighbours; metrics. A collective of all ranks."""
        self._draw(step)
        requests = [request for group in self.groups for request in self._requests(group, params)]
        engine, dp_group = self.generator.engine, self.generator.groups.dp
        completions, rest = generate_until(engine, requests, enough=self._enough, dp_group=dp_group)
        engine.release_cache()  # the model trains now
        found: dict[int, Completion | Request] = {each.sample_id: each for each in completions}
        found |= {each.sample_id: each for each in rest}
        self.groups = [self._after(step, group, found) for group in self.groups]
        whole = [group for group in self.groups if group.whole][: self.batch]
        taken = {group.number for group in whole}
        self.groups = [group for group in self.groups if group.number not in taken]
        completions = [each for group in whole for each in self._completions(group)]
        return [self._row(group) for group in whole], completions, self._metrics(whole, step)

    def _draw(self, step: int) -> None:
        """New prompts for the places that are free."""
        for _ in range(self.in_flight - len(self.groups)):
            number = self.prompts.sampler.position
            (row,) = self.prompts.sampler.next(1)
            self.groups.append(Group(number, row, step, (Carried(),) * self.n))

    def _row(self, group: Group) -> PromptRow:
        return self.prompts.train[group.row]

    def _requests(self, group: Group, params: SamplingParams) -> list[Request]:
        """Of the samples that are not finished."""
        born, prompt = params.at_step(group.born), self._row(group).tokens
        return [
            Request(sample_id=each, prompt=prompt, params=born, response=s.tokens, logprobs=s.logprobs)
            for each, s in zip(group.ids(), group.samples, strict=True)
            if s.reason is None
        ]

    def _enough(self, finished: Collection[int]) -> bool:
        whole = (
            all(s.reason is not None or each in finished for each, s in zip(group.ids(), group.samples, strict=True))
            for group in self.groups
        )
        return sum(whole) >= self.batch

    def _after(self, step: int, group: Group, found: Mapping[int, Completion | Request]) -> Group:
        samples = zip(group.ids(), group.samples, strict=True)
        return replace(group, samples=tuple(s.after(step, found[each]) if each in found else s for each, s in samples))

    def _completions(self, group: Group) -> list[Completion]:
        prompt = self._row(group).tokens
        return [
            Completion(sample_id=each, prompt=prompt, tokens=s.tokens, logprobs=s.logprobs, finish_reason=s.reason)
            for each, s in zip(group.ids(), group.samples, strict=True)
            if s.reason is not None
        ]

    def _metrics(self, trained: Sequence[Group], step: int) -> dict[str, float]:
        samples = [sample for group in trained for sample in group.samples]
        waiting = [sample for group in self.groups for sample in group.samples]
        stale = [sample.stale_tokens(step) for sample in samples]
        ages = [step - drawn_in for sample in samples for drawn_in, _ in sample.drawn]
        return {
            "rollout/carried_groups": float(len(self.groups)),
            "rollout/carried_samples": float(sum(sample.reason is None for sample in waiting)),
            "rollout/carried_tokens": float(sum(len(sample.tokens) for sample in waiting)),
            "rollout/stale_samples": float(sum(map(bool, stale))),
            "rollout/stale_tokens": float(sum(stale)),
            "rollout/stale_tokens_ratio": sum(stale) / max(sum(len(sample.tokens) for sample in samples), 1),
            "rollout/staleness_max": float(max(ages, default=0)),
        }

    def state(self) -> tuple[list[Any], dict[str, Tensor]]:
        """What a saved run goes on from: JSON's types, and flat tensors of all samples end to end."""
        plain = [
            [group.number, group.row, group.born, [[s.reason, len(s.tokens), s.drawn] for s in group.samples]]
            for group in self.groups
        ]
        samples = [sample for group in self.groups for sample in group.samples]
        tokens = torch.tensor([token for sample in samples for token in sample.tokens], dtype=torch.int32)
        logprobs = torch.tensor([logp for sample in samples for logp in sample.logprobs], dtype=torch.float32)
        return plain, {"carried_tokens": tokens.view(torch.uint8), "carried_logprobs": logprobs}

    def restore(self, plain: Sequence[Any], tensor: Callable[[str], Tensor]) -> None:
        """Inverse of `state`; tensor: gives each by name. Raises ValueError where prompts had another number of
        samples, or longer responses."""
        tokens = iter(tensor("carried_tokens").view(torch.int32).tolist())
        logprobs = iter(tensor("carried_logprobs").tolist())
        self.groups = []
        for number, row, born, samples in plain:
            if len(samples) != self.n:
                raise ValueError(
                    f"actor_rollout_ref.rollout.n={self.n}: the saved state carries prompts of {len(samples)} samples "
                    "each; take that number back"
                )
            made = [
                Carried(
                    tuple(next(tokens) for _ in range(length)),
                    tuple(next(logprobs) for _ in range(length)),
                    reason,
                    tuple((drawn_in, count) for drawn_in, count in drawn),
                )
                for reason, length, drawn in samples
            ]
            self.groups.append(Group(number, row, born, tuple(made)))
        longest = max((len(sample.tokens) for group in self.groups for sample in group.samples), default=0)
        if longest > self.longest:
            raise ValueError(
                f"data.max_response_length={self.longest}: the saved state carries responses of up to {longest} "
                "tokens; make it at least that"
            )


def corrected(algorithm: AlgorithmConfig, *, partial: bool) -> AlgorithmConfig:
    """With partial rollout the policy loss is weighed by token, unless the configuration says how."""
    correction = algorithm.rollout_correction
    if not partial or correction.rollout_is is not None:
        return algorithm
    return replace(algorithm, rollout_correction=replace(correction, rollout_is="token"))
