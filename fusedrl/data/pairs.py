"""Pairs of token rows for a reward model, made as PPO makes prompt and response, so that training and scoring agree.

    prompt + chosen     rows 2p      of a batch; the end token included, as generation leaves it
    prompt + rejected   rows 2p + 1

Shapes: P pairs, B = 2P rows, S tokens of a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fusedrl.data.preferences import Preference
from fusedrl.data.rows import Row
from fusedrl.data.tokenizer import Tokenizer


@dataclass(frozen=True)
class Pair:
    """Tokens of the prompt and of the responses to it."""

    prompt: tuple[int, ...]
    chosen: tuple[int, ...]
    rejected: tuple[int, ...]
    margin: float = 0.0

    @property
    def length(self) -> int:
        """Tokens of the longer row."""
        return len(self.prompt) + max(len(self.chosen), len(self.rejected))


@dataclass(frozen=True, eq=False)
class PairBatch:
    """tokens_BS right padded, lengths_B without padding, the part of prompts as prompt_lengths_B; margins_P fp32."""

    tokens_BS: Tensor
    lengths_B: Tensor
    prompt_lengths_B: Tensor
    margins_P: Tensor

    @property
    def pairs(self) -> int:
        return len(self.margins_P)

    @property
    def lengths_P(self) -> Tensor:
        """Tokens of each pair's longer row."""
        return self.lengths_B.view(-1, 2).amax(dim=1)


@dataclass(frozen=True)
class Dropped:
    """What was done to pairs: too long (left out or cut), and with equal responses (left out: nothing to compare)."""

    too_long: int = 0
    equal: int = 0

    def __add__(self, other: "Dropped") -> "Dropped":
        return Dropped(self.too_long + other.too_long, self.equal + other.equal)


def tokenize(preference: Preference, tokenizer: Tokenizer) -> Pair:
    """Raises ValueError naming the row's place."""
    place = preference.place
    prompt = tokenizer.encode_prompt(Row(prompt=preference.prompt, place=place))
    if not prompt:
        raise ValueError(f"{place}: the prompt has no token")
    chosen, rejected = (
        tokenizer.encode_response(text, place=place) for text in (preference.chosen, preference.rejected)
    )
    return Pair(prompt, chosen, rejected, preference.margin)


def usable(
    pairs: Sequence[tuple[Preference, Pair]], *, limit: int, truncation: str, key: str
) -> tuple[list[Pair], Dropped]:
    """(pairs to train on, what was left out or cut). `key` names the limit in errors."""
    kept, too_long, equal = [], 0, 0
    for preference, pair in pairs:
        if pair.length > limit:
            if truncation == "error":
                told = f"{pair.length} tokens, {key}={limit}"
                raise ValueError(f"{preference.place}: {told}; raise it, or set data.truncation=filter or truncate")
            too_long += 1
            if truncation == "filter":
                continue
            pair = cut(pair, limit=limit)
        if pair.chosen == pair.rejected:
            equal += 1
        else:
            kept.append(pair)
    if not kept:
        raise ValueError(
            f"no pair is left of {len(pairs)}: {too_long} were longer than {key}={limit}, {equal} had equal responses"
        )
    return kept, Dropped(too_long, equal)


def cut(pair: Pair, *, limit: int) -> Pair:
    """At most `limit` tokens a row. Both keep the same end of the prompt, where the question stands in most templates.

    A response that is still too long loses its end, as one that generation breaks off does.
    """
    room = max(1, limit - (pair.length - len(pair.prompt)))
    prompt = pair.prompt[-room:]
    rest = limit - len(prompt)
    return replace(pair, prompt=prompt, chosen=pair.chosen[:rest], rejected=pair.rejected[:rest])


def collate(pairs: Sequence[Pair], *, pad_id: int) -> PairBatch:
    """A batch, padded to its longest row."""
    rows = [pair.prompt + response for pair in pairs for response in (pair.chosen, pair.rejected)]
    width = max(map(len, rows))
    return PairBatch(
        tokens_BS=torch.tensor([[*row, *[pad_id] * (width - len(row))] for row in rows], dtype=torch.int64),
        lengths_B=torch.tensor([len(row) for row in rows]),
        prompt_lengths_B=torch.tensor([len(pair.prompt) for pair in pairs]).repeat_interleave(2),
        margins_P=torch.tensor([pair.margin for pair in pairs], dtype=torch.float32),
    )
