"""Evaluations and generations on gloo ranks, as their entry points have them in a joined world."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from fusedrl.config.schema import EvaluateConfig, GenerateConfig
from fusedrl.rollout.requests import Completion
from fusedrl.trainers.setup_generation import evaluation_run, generation_run


class Interrupted(Exception):
    """Stands for a run's end by a signal."""


def run_all(*, configs: Sequence[EvaluateConfig | GenerateConfig], interrupt_first: bool = False) -> list[Any]:
    """One after the other. interrupt_first: the first ends when it tells of its third row."""
    found: list[Any] = []
    for number, config in enumerate(configs):
        if isinstance(config, EvaluateConfig):
            with evaluation_run(config) as evaluation:
                found.append({each.name: each.to_dict() for each in evaluation.run()})
        else:
            found.append(_respond(config, rows=3 if interrupt_first and number == 0 else None))
    return found


def _respond(config: GenerateConfig, *, rows: int | None) -> Any:
    """(rows that were there, tokens of the others); None where all were."""
    heard = count(1)

    def told(finished: Sequence[Completion]) -> None:
        if rows is not None and next(heard) == rows:
            raise Interrupted

    try:
        with generation_run(config) as responding:
            return None if responding is None else (len(responding.done), responding.run(told=told))
    except Interrupted:
        return "interrupted"
