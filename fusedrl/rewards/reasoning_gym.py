"""Verifier of reasoning-gym's generated tasks, as a reward function: custom_reward_function.path may name this file.

data_source is "reasoning_gym/TASK" ("reasoning_gym/chain_sum"), ground_truth the entry's answer, extra_info the entry's
metadata or a dict with it under "metadata" (and the question under "question"). The score is the dataset's own
`score_answer`: 1.0 for a right answer; many tasks give a fraction to one that merely contains it, so "acc" tells
whether it was right. "pred" is the answer that was read, for votes among several responses.

An answer inside <answer>...</answer> counts alone (the last one); else the whole response, stripped, is the answer.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from reasoning_gym import get_score_answer_fn
from reasoning_gym.utils import extract_answer

PREFIX = "reasoning_gym/"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, float | str]:
    """{"score": the dataset's score, "acc": 1.0 where it is full marks, "pred"}. ValueError for another data source."""
    extra = extra_info or {}
    metadata = extra["metadata"] if isinstance(extra.get("metadata"), dict) else extra
    entry = {"question": extra.get("question", ""), "answer": ground_truth, "metadata": metadata}
    answer = answer_of(solution_str)
    score = float(scorer(task_of(data_source))(answer, entry))
    return {"score": score, "acc": float(score >= 1.0), "pred": answer}


def full_marks(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, float | str]:
    """As `compute_score`, without credit for part of an answer: the score is 1.0 or 0.0."""
    found = compute_score(data_source, solution_str, ground_truth, extra_info)
    return found | {"score": found["acc"]}


def last_number(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, float | str]:
    """As `full_marks` of the last number in the response: for models that answer in sentences."""
    numbers = NUMBER.findall(solution_str)
    return full_marks(data_source, numbers[-1] if numbers else "", ground_truth, extra_info)


def watched(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, float | str]:
    """A score of 0, "acc" as it is: for runs whose reward is a reward model's, to see what that is worth."""
    return compute_score(data_source, solution_str, ground_truth, extra_info) | {"score": 0.0}


def task_of(data_source: str) -> str:
    if not data_source.startswith(PREFIX) or data_source == PREFIX:
        raise ValueError(f"data_source is {data_source!r}: this verifier scores '{PREFIX}TASK' only")
    return data_source.removeprefix(PREFIX)


def answer_of(solution_str: str) -> str:
    tagged = extract_answer(solution_str)
    return solution_str.strip() if tagged is None else tagged


@lru_cache
def scorer(task: str) -> Callable[[str, dict[str, Any]], float]:
    """The dataset's `score_answer`; making the dataset generates nothing."""
    return get_score_answer_fn(task)
