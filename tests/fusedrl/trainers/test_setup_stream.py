"""Each model of a stream is asked what the pipeline's passes ask of it. Whole streams: test_streaming.py."""

from types import SimpleNamespace
from typing import Any

import pytest

from fusedrl.trainers import setup_stream
from fusedrl.trainers.setup_stream import _reader
from tests.fusedrl.config.conftest import ppo


def test_log_probabilities_have_the_samples_temperature_and_the_actors_alone_an_entropy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: dict[str, dict[str, Any]] = {}
    monkeypatch.setattr(setup_stream.forward, "log_probs", lambda role, **given: asked.setdefault(role.name, given))
    config = ppo("actor_rollout_ref.rollout.temperature=0.7")
    width = config.data.max_response_length
    roles: Any = {name: SimpleNamespace(name=name) for name in ("actor", "critic", "ref", "reward")}
    found = {name: _reader(role, config) for name, role in roles.items()}
    assert asked == {
        "actor": {"temperature": 0.7, "width": width, "with_entropy": True},
        "ref": {"temperature": 0.7, "width": width, "with_entropy": False},
    }
    assert {name: each.names for name, each in found.items()} == {
        "actor": ("logp", "entropy"),
        "critic": ("values",),
        "ref": ("ref_logp",),
        "reward": ("rm_score",),
    }
    assert [name for name, each in found.items() if not each.by_token] == ["reward"]
