import pytest

from fusedrl.config.load import load
from fusedrl.models import implementation
from fusedrl.trainers.records import implementation_lines


def test_alike_models_are_told_in_one_line() -> None:
    ppo = load("ppo", ["experiment=arithmetic"])
    (line,) = implementation_lines(ppo)
    assert line.startswith("Megatron's local layers, unfused attention, torch's Adam")
    assert implementation_lines(load("sft", ["experiment=arithmetic"])) == [line]
    assert implementation_lines(load("reward_model", ["experiment=arithmetic"])) == [line]


def test_models_that_differ_are_told_by_role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implementation, "_state", lambda name, *, cuda: "")
    ppo = load("ppo", ["experiment=arithmetic", "critic.megatron.transformer_impl=local"])
    actor, critic = implementation_lines(ppo)
    assert actor.startswith("actor: Transformer Engine's layers, auto attention")
    assert critic.startswith("critic: Megatron's local layers, unfused attention")
