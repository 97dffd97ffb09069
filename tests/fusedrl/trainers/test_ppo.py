"""The loop's choices that no other test sees."""

from types import SimpleNamespace
from typing import Any

from fusedrl.trainers.ppo import PPO
from tests.fusedrl.config.conftest import ppo


def test_the_critic_learns_alone_while_its_warm_up_lasts() -> None:
    run: Any = SimpleNamespace(
        config=ppo("trainer.critic_warmup=2"),
        critic=object(),
        _actor_learner=lambda step: None,
        _critic_learner=lambda critic: None,
    )
    assert [sorted(PPO._learners(run, step)) for step in (1, 2, 3)] == [["critic"], ["critic"], ["actor", "critic"]]
