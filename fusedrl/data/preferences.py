"""Preferences: a prompt, a chosen and a rejected response. Every error names the file and the line (or row).

    {"prompt": "3 + 4 =", "chosen": "7", "rejected": "8", "margin": 1.0}              margin is optional
    {"prompt": [{"role": "user", "content": "What is 3 + 4?"}], "chosen": "7", "rejected": "8"}
    {"chosen": [{"role": "user", ...}, {"role": "assistant", ...}], "rejected": [...]}

Responses that are chats end with the assistant's message, which is the response; messages before it are the prompt, the
same for both, and as `prompt` has it where that is given too.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusedrl.data.files import RowError, is_chat, need_column, prompt_of, read_records, shown
from fusedrl.data.rows import Chat, Row

SIDES = ("chosen", "rejected")
NEAR = 3  # the most by which a near miss is off


@dataclass(frozen=True)
class Preference:
    """`margin`: by how much the chosen one should score above; `place`: where the row came from, for errors."""

    prompt: str | Chat
    chosen: str
    rejected: str
    margin: float = 0.0
    place: str = ""


def read_preferences(paths: Sequence[str | Path]) -> list[Preference]:
    """All pairs of all files, in order."""
    return [_preference(data, place=place) for place, data in read_records(paths)]


def contrasted(rows: Sequence[Row]) -> list[Preference]:
    """Pairs of a generated task: the right answer, and as the rejected one the next row's answer that differs."""
    answers = [str(row.ground_truth) for row in rows]
    if rows and len(set(answers)) == 1:
        told = f"all {len(rows)} answers are {answers[0]!r}, so none is wrong"
        raise ValueError(f"data.task.config: {told}; widen it")
    wrong, after = list(answers), ""
    for index in reversed(range(2 * len(rows))):  # twice round: the last row's next is the first
        here, next_ = index % len(rows), answers[(index + 1) % len(rows)]
        after = next_ if next_ != answers[here] else after
        wrong[here] = after
    return [
        Preference(row.prompt, answer, other, place=row.place)
        for row, answer, other in zip(rows, answers, wrong, strict=True)
    ]


def near_misses(rows: Sequence[Row]) -> list[Preference]:
    """Pairs of a generated task with whole numbers as answers: the right one, and one that is off by 1 to 3.

    A policy's own mistakes look like these more than like another row's answer, which the size alone gives away. What
    is drawn depends on the row's place.
    """
    return [_near_miss(row) for row in rows]


def _near_miss(row: Row) -> Preference:
    try:
        right = int(str(row.ground_truth))
    except ValueError as error:
        told = f"{row.place}: its answer is {row.ground_truth!r}"
        raise ValueError(f"data.rejected=near: {told}; near misses are those of whole numbers") from error
    draw = random.Random(row.place)
    wrong = right + draw.choice((-1, 1)) * draw.randint(1, NEAR)
    return Preference(row.prompt, str(row.ground_truth), str(wrong), place=row.place)


def _preference(data: Mapping[str, Any], *, place: str) -> Preference:
    for side in SIDES:
        need_column(data, side, place=place)
        if not isinstance(data[side], str) and not is_chat(data[side]):
            told = "text, or a list of messages with role and content"
            raise RowError(f"{place}: {side} must be {told}; found {shown(data, side)}")
    chosen, rejected = (data[side] for side in SIDES)
    if isinstance(chosen, str) != isinstance(rejected, str):
        raise RowError(f"{place}: chosen and rejected must both be text, or both lists of messages")
    margin = _margin(data, place=place)
    if isinstance(chosen, str):
        return Preference(prompt_of(data, place=place), chosen, rejected, margin, place)
    for side in SIDES:
        if (role := data[side][-1]["role"]) != "assistant":
            raise RowError(f"{place}: {side} must end with a message of the assistant, not of {role!r}")
    prompt = _shared_prompt(data, place=place)
    return Preference(prompt, chosen[-1]["content"], rejected[-1]["content"], margin, place)


def _shared_prompt(data: Mapping[str, Any], *, place: str) -> str | Chat:
    """The messages before the responses, or `prompt`."""
    before, other = (data[side][:-1] for side in SIDES)
    if before != other:
        raise RowError(f"{place}: chosen and rejected differ before their last message; only that one is compared")
    if not before:
        return prompt_of(data, place=place)
    prompt = data.get("prompt")
    if prompt not in (None, before, before[-1]["content"]):
        raise RowError(f"{place}: prompt is not what the messages of chosen begin with; leave one of them out")
    return before


def _margin(data: Mapping[str, Any], *, place: str) -> float:
    margin = data.get("margin")
    if margin is None:
        return 0.0
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < math.inf:
        raise RowError(f"{place}: margin must be a number of at least 0, not {shown(data, 'margin')}")
    return float(margin)
