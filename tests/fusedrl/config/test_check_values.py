"""Values outside their limits are all told, by full key."""

from dataclasses import replace

from fusedrl.config.check_values import check_values
from fusedrl.config.schema import PPOConfig


def test_all_bad_values_are_told_at_once_by_full_key() -> None:
    base = PPOConfig()
    critic = replace(base.critic, ppo_epochs=0, optim=replace(base.critic.optim, betas=[0.9, 1.0]))
    trainer = replace(base.trainer, logger=["console", "carrier-pigeon"])
    assert check_values(replace(base, critic=critic, trainer=trainer)) == [
        "critic.ppo_epochs=0: must be at least 1",
        "critic.optim.betas=1.0: must be below 1",
        "trainer.logger=carrier-pigeon: must be one of console, tensorboard",
    ]


def test_null_is_within_every_limit() -> None:
    base = PPOConfig()
    assert check_values(replace(base, schedule=replace(base.schedule, memory_cap=None))) == []
    assert check_values(replace(base, schedule=replace(base.schedule, memory_cap=0.0))) != []
