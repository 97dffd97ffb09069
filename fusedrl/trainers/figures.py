"""The figures of an evaluation under verl's names, one value a prompt each; PPO's validation and evaluate share them.

    val-core/SOURCE/acc/mean@8  best@8/mean  maj@8/mean  pass@8         of the variable that counts, at the full n
    val-aux/SOURCE/acc/std@8  best@4/mean ..  worst@8/mean ..  pass@4   its others
    val-aux/SOURCE/reward/mean@8 ..                                     the score, where the function tells acc, too
    val-aux/SOURCE/reward/NAME/mean@8 ..                                a part of a weighted function; a failed call: 0

The variable that counts is "acc" where the reward function tells it, else "reward", its score. verl has no pass@k; its
maj@k votes among k random draws, ours among all n. Of one response there is mean@1 alone: nothing else can be said.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fusedrl.trainers.prompting import PromptRow
from fusedrl.trainers.repeats import best_of, majority, mean, pass_at_k, powers_of_two, spread, worst_of
from fusedrl.trainers.scoring import Verdict

CORE, AUX = "val-core", "val-aux"
UNKNOWN = "unknown"  # of rows that name no data source, verl's word
RIGHT = 1.0  # acc of a right response, unless told otherwise


@dataclass(frozen=True)
class Figure:
    """A metric's value of each prompt. may_share: of 0 and 1 alone it is a share of prompts; a spread never is."""

    per_prompt: tuple[float, ...]
    may_share: bool = True

    @property
    def value(self) -> float:
        """The mean over prompts."""
        return mean(self.per_prompt)


def figures(
    rows: Sequence[PromptRow],
    verdicts: Sequence[Verdict],
    *,
    n: int,
    right_at: float | None = None,
    ks: Sequence[int] = (),
) -> dict[str, Figure]:
    """By name. verdicts: n of each row, neighbours. right_at: the least value of a right response; None: 1 of acc, and
    no pass@k where there is a reward alone. ks: of pass@k and best@k, besides n; none: powers of two."""
    by_source: dict[str, list[Sequence[Verdict]]] = {}
    for index, row in enumerate(rows):
        by_source.setdefault(row.data_source or UNKNOWN, []).append(verdicts[index * n : (index + 1) * n])
    return {
        name: Figure(tuple(values), may_share="/std@" not in name)
        for source, prompts in by_source.items()
        for name, values in _of_source(source, prompts, right_at=right_at, ks=ks)
    }


def values_of(found: Mapping[str, Figure]) -> dict[str, float]:
    return {name: figure.value for name, figure in found.items()}


def _of_source(
    source: str, prompts: Sequence[Sequence[Verdict]], *, right_at: float | None, ks: Sequence[int]
) -> Iterator[tuple[str, list[float]]]:
    tells_acc = any(verdict.acc is not None for prompt in prompts for verdict in prompt)
    variables = {"reward": [[verdict.score for verdict in prompt] for prompt in prompts]}
    for part in dict.fromkeys(name for prompt in prompts for verdict in prompt for name in verdict.parts):
        variables[f"reward/{part}"] = [[verdict.parts.get(part, 0.0) for verdict in prompt] for prompt in prompts]
    core = "reward"
    if tells_acc:
        variables["acc"] = [[verdict.accuracy for verdict in prompt] for prompt in prompts]
        core, right_at = "acc", RIGHT if right_at is None else right_at
    answers = [[verdict.pred for verdict in prompt] for prompt in prompts]
    n = len(prompts[0])
    at_full_n = {f"mean@{n}", f"best@{n}/mean", f"maj@{n}/mean", f"pass@{n}"}
    for variable, values in variables.items():
        found = dict(_of_repeats(values, answers, ks=ks or powers_of_two(n)))
        if variable == core and right_at is not None:
            found |= _passes(values, right_at=right_at, ks=ks or ([1, *powers_of_two(n)] if n > 1 else ()))
        for name, of_prompts in found.items():
            section = CORE if variable == core and name in at_full_n else AUX
            yield f"{section}/{source}/{variable}/{name}", of_prompts


def _of_repeats(
    values: Sequence[Sequence[float]], answers: Sequence[Sequence[str | None]], *, ks: Sequence[int]
) -> Iterator[tuple[str, list[float]]]:
    n = len(values[0])
    yield f"mean@{n}", [mean(each) for each in values]
    if n == 1:
        return
    yield f"std@{n}", [spread(each) for each in values]
    for k in sorted({*ks, n} - {1}):
        yield f"best@{k}/mean", [best_of(each, k) for each in values]
        yield f"worst@{k}/mean", [worst_of(each, k) for each in values]
    if any(answer is not None for each in answers for answer in each):
        yield f"maj@{n}/mean", [majority(*both) for both in zip(values, answers, strict=True)]


def _passes(values: Sequence[Sequence[float]], *, right_at: float, ks: Sequence[int]) -> dict[str, list[float]]:
    n = len(values[0])
    right = [sum(value >= right_at for value in each) for each in values]
    return {f"pass@{k}": [pass_at_k(n, count, k) for count in right] for k in sorted({*ks, n} if ks else ())}
