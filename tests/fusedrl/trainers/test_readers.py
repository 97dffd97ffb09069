"""A unit's results are those of its samples alone, cut to their responses; models that wait are awake one at a time."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fusedrl.rollout.requests import Completion
from fusedrl.trainers import readers as module
from fusedrl.trainers.readers import Reader, Readers

WIDTH = 5


def samples() -> list[Completion]:
    shapes = ((3, 2), (1, 5), (2, 0))  # tokens of prompt and response
    return [
        Completion(sample_id=i, prompt=(7,) * p, tokens=(9,) * r, logprobs=(-1.0,) * r, finish_reason="length")
        for i, (p, r) in enumerate(shapes)
    ]


def reader(name: str, *, names: tuple[str, ...], by_token: bool = True) -> Reader:
    """Result k of sample b is 100 b + 10 k + position."""
    passes: list[str] = []

    def collect(output: Tensor, batch: Any) -> Tensor:
        assert output is batch.tokens_BT  # of this unit's own forward
        width = WIDTH if by_token else 1
        found_BKW = torch.arange(len(output))[:, None, None] * 100 + torch.arange(len(names))[:, None] * 10
        return found_BKW + torch.arange(width)

    pipeline = SimpleNamespace(
        stages={0: lambda batch, _: batch.tokens_BT}, before_pass=lambda: passes.append(name), passes=passes
    )
    role: Any = SimpleNamespace(name=name, device=torch.device("cpu"), module=torch.nn.Linear(2, 1), pipeline=pipeline)
    return Reader(role, names, collect, by_token)


def test_results_are_cut_to_the_responses_and_keep_their_names() -> None:
    given = {
        "actor": reader("actor", names=("logp", "entropy")),
        "reward": reader("reward", names=("rm",), by_token=False),
    }
    made = Readers(given, width=WIDTH, pad_id=0)
    found = made.infer("actor", samples())
    assert {name: [each.tolist() for each in arrays] for name, arrays in found.items()} == {
        "logp": [[0, 1], [100, 101, 102, 103, 104], []],
        "entropy": [[10, 11], [110, 111, 112, 113, 114], []],
    }
    assert all(each.dtype == np.float32 for arrays in found.values() for each in arrays)
    scored = made.infer("reward", samples())
    assert [each.tolist() for each in scored["rm"]] == [[0], [100], [200]]
    sums = made.times.sums
    assert {key: (each.count, each.size) for key, each in sums.items()} == {
        ("infer", "actor"): (1, 3 + 2 + 1 + 5 + 2),
        ("infer", "reward"): (1, 3 + 2 + 1 + 5 + 2),
    }


def test_new_weights_are_told_to_every_model_and_the_critics_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {name: reader(name, names=("x",)) for name in ("actor", "critic", "ref")}
    made = Readers(given, width=WIDTH, pad_id=0)
    handed: list[Any] = []
    monkeypatch.setattr(module, "hand_over", lambda *models: handed.append(models))
    critic: Any = SimpleNamespace(module=torch.nn.Linear(2, 1))
    made.load(critic)
    assert handed == [(critic.module, given["critic"].role.module)]
    made.load(None)
    assert len(handed) == 1
    passes: Any = [vars(each.role.pipeline)["passes"] for each in given.values()]
    assert passes == [["actor"] * 2, ["critic"] * 2, ["ref"] * 2]


def test_models_that_may_wait_are_awake_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {name: reader(name, names=("x",)) for name in ("actor", "critic", "ref")}
    moves: list[str] = []
    # a model's own device is "meta" here, so that moves to it and to the CPU can be told apart
    monkeypatch.setattr(module, "_move", lambda role, device: moves.append(f"{role.name} {device}"))
    monkeypatch.setattr(module, "hand_over", lambda *models: None)
    cut = module.microbatches
    monkeypatch.setattr(module, "microbatches", lambda batch, groups, device: cut(batch, groups, device="cpu"))
    for each in given.values():
        each.role.device = torch.device("meta")  # type: ignore[misc]
    made = Readers(given, width=WIDTH, pad_id=0, offload=("critic", "ref"))
    assert moves == ["critic cpu", "ref cpu"]
    moves.clear()
    for task in ("actor", "critic", "critic", "actor", "ref"):
        made.infer(task, samples())
    made.rest()
    made.rest()
    critic: Any = SimpleNamespace(module=None)
    made.load(critic)
    assert moves == ["critic meta", "critic cpu", "ref meta", "ref cpu", "critic meta"]
