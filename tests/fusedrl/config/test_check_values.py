"""Values outside their limits are all told, by full key."""

from dataclasses import replace

import pytest

from fusedrl.config.check_values import check_values
from fusedrl.config.schema import PPOConfig
from tests.fusedrl.config.conftest import changed

ROLLOUT = "actor_rollout_ref.rollout"


def test_all_bad_values_are_told_at_once_by_full_key() -> None:
    base = PPOConfig()
    critic = replace(base.critic, ppo_epochs=0, optim=replace(base.critic.optim, betas=[0.9, 1.0]))
    trainer = replace(base.trainer, logger=["console", "carrier-pigeon"])
    assert check_values(replace(base, critic=critic, trainer=trainer)) == [
        "critic.ppo_epochs=0: must be at least 1",
        "critic.optim.betas=1.0: must be below 1",
        "trainer.logger=carrier-pigeon: must be one of console, jsonl, tensorboard, wandb, mlflow",
    ]


@pytest.mark.parametrize("top_k", [-1, 1, 50])
def test_top_k_is_a_count_or_off(top_k: int) -> None:
    assert check_values(changed(PPOConfig(), {f"{ROLLOUT}.top_k": top_k, f"{ROLLOUT}.val_kwargs.top_k": top_k})) == []


@pytest.mark.parametrize("top_k", [0, -2])
@pytest.mark.parametrize("key", [f"{ROLLOUT}.top_k", f"{ROLLOUT}.val_kwargs.top_k"])
def test_top_k_of_no_tokens_is_refused(key: str, top_k: int) -> None:
    assert check_values(changed(PPOConfig(), {key: top_k})) == [f"{key}={top_k}: must be at least 1, or -1"]


def test_a_timeout_lasts_a_week_at_most() -> None:
    assert check_values(changed(PPOConfig(), {"trainer.timeout_s": 604800.0})) == []
    (line,) = check_values(changed(PPOConfig(), {"trainer.timeout_s": 604801.0}))
    assert line == "trainer.timeout_s=604801.0: must be at most 604800"


def test_null_is_within_every_limit() -> None:
    base = PPOConfig()
    assert check_values(replace(base, schedule=replace(base.schedule, memory_cap=None))) == []
    assert check_values(replace(base, schedule=replace(base.schedule, memory_cap=0.0))) != []
