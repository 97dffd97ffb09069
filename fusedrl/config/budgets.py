"""Which passes are cut by a budget of tokens instead of a number of samples, each model with its own budget.

    pass       switch                                    budget
    actor      actor.use_dynamic_bsz                     actor.ppo_max_token_len_per_gpu
    log_prob   rollout.log_prob_use_dynamic_bsz          rollout.log_prob_max_token_len_per_gpu
    ref        ref.log_prob_use_dynamic_bsz              ref.log_prob_max_token_len_per_gpu
    critic     critic.use_dynamic_bsz                    critic.ppo_max_token_len_per_gpu
    values     critic.use_dynamic_bsz                    critic.forward_max_token_len_per_gpu
    reward     reward_model.use_dynamic_bsz              reward_model.forward_max_token_len_per_gpu

How samples are packed into a budget: fusedrl.rl.token_budget.
"""

from dataclasses import dataclass

from fusedrl.config.schema import MegatronConfig, PPOConfig, SFTConfig


@dataclass(frozen=True)
class Budget:
    """Tokens, padding included, that one micro-batch may have; `key` says so.

    multiple: the micro-batches of a pass on a replica come in multiples of this; interleaved orders ask for pp.
    """

    tokens: int
    key: str
    multiple: int = 1

    def most(self, samples: int, *, length: int) -> int:
        """Micro-batches where all of a replica's samples are `length` long: no shorter samples need more."""
        needed = -(-samples // (self.tokens // length))
        return -(-needed // self.multiple) * self.multiple


def ppo_budgets(config: PPOConfig) -> dict[str, Budget]:
    """By pass; those cut by samples are absent."""
    policy, critic, reward = config.actor_rollout_ref, config.critic, config.reward_model
    actor, rollout, ref = policy.actor, policy.rollout, policy.ref

    def multiple(megatron: MegatronConfig) -> int:
        return megatron.pipeline_model_parallel_size if config.schedule.method == "interleaved" else 1

    def budget(section: str, name: str, holder: object, **options: int) -> Budget:
        key = f"{name}_max_token_len_per_gpu"
        return Budget(getattr(holder, key), f"{section}.{key}", **options)

    table = {
        "actor": (actor.use_dynamic_bsz, budget("actor_rollout_ref.actor", "ppo", actor, multiple=multiple(actor.megatron))),
        "log_prob": (rollout.log_prob_use_dynamic_bsz, budget("actor_rollout_ref.rollout", "log_prob", rollout)),
        "ref": (ref.log_prob_use_dynamic_bsz, budget("actor_rollout_ref.ref", "log_prob", ref)),
        "critic": (critic.use_dynamic_bsz, budget("critic", "ppo", critic, multiple=multiple(critic.megatron))),
        "values": (critic.use_dynamic_bsz, budget("critic", "forward", critic)),
        "reward": (reward.use_dynamic_bsz, budget("reward_model", "forward", reward)),
    }
    return {name: each for name, (switched_on, each) in table.items() if switched_on}


def sft_budget(config: SFTConfig) -> Budget | None:
    """None where micro-batches are cut by samples."""
    data = config.data
    return Budget(data.max_token_len_per_gpu, "data.max_token_len_per_gpu") if data.use_dynamic_bsz else None
