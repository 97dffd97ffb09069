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

from fusedrl.config.inference_layout import inference_layout
from fusedrl.config.schema import MegatronConfig, OneModelConfig, PPOConfig, RMConfig, SFTConfig


@dataclass(frozen=True)
class Budget:
    """Tokens, padding included, that one micro-batch may have; `key` says so.

    multiple: the micro-batches of a pass on a replica come in multiples of this; interleaved orders ask for pp.
    pads_to: a stage pads rows to a multiple of this many tokens. rows: of a sample; a pair has 2.
    """

    tokens: int
    key: str
    multiple: int = 1
    pads_to: int = 1
    rows: int = 1

    def padded(self, length: int) -> int:
        """Tokens that a sample of this length takes at least."""
        return -(-length // self.pads_to) * self.pads_to * self.rows

    def most(self, samples: int, *, length: int) -> int:
        """Micro-batches where all of a replica's samples are `length` long: no shorter samples need more."""
        needed = -(-samples // (self.tokens // self.padded(length)))
        return -(-needed // self.multiple) * self.multiple

    def shapes(self, samples: int, *, length: int) -> list[tuple[int, int]]:
        """(samples, padded length) of micro-batches: of samples up to `length` none is larger than one of these, from
        few long samples, which attend the most, to many short ones, which may be more tokens."""
        few = min(samples, self.tokens // self.padded(length))
        unit = self.rows * self.pads_to
        found = [(count, self.tokens // (count * unit) * self.pads_to) for count in range(few, samples + 1)]
        return [(count, min(self.padded(length) // self.rows, most)) for count, most in found if most > 0]


def row_multiple(megatron: MegatronConfig) -> int:
    """What the length of a row is padded to: ranks that share its tokens take equally many, with context parallelism
    two parts each."""
    shares = megatron.tensor_model_parallel_size if megatron.sequence_parallel else 1
    return shares if megatron.context_parallel_size == 1 else 2 * megatron.context_parallel_size * shares


def ppo_budgets(config: PPOConfig) -> dict[str, Budget]:
    """By pass; those cut by samples are absent."""
    policy, critic, reward = config.actor_rollout_ref, config.critic, config.reward_model
    actor, rollout, ref = policy.actor, policy.rollout, policy.ref

    def multiple(megatron: MegatronConfig) -> int:
        return megatron.pipeline_model_parallel_size if config.schedule.method == "interleaved" else 1

    def budget(section: str, name: str, holder: object, *, megatron: MegatronConfig, **options: int) -> Budget:
        key = f"{name}_max_token_len_per_gpu"
        return Budget(getattr(holder, key), f"{section}.{key}", pads_to=row_multiple(megatron), **options)

    reads = inference_layout(actor.megatron, actor.inference_megatron)
    judges = inference_layout(critic.megatron, critic.inference_megatron)
    learns, values = multiple(actor.megatron), multiple(critic.megatron)
    table = {
        "actor": (
            actor.use_dynamic_bsz,
            budget("actor_rollout_ref.actor", "ppo", actor, megatron=actor.megatron, multiple=learns),
        ),
        "log_prob": (
            rollout.log_prob_use_dynamic_bsz,
            budget("actor_rollout_ref.rollout", "log_prob", rollout, megatron=reads),
        ),
        "ref": (
            ref.log_prob_use_dynamic_bsz,
            budget("actor_rollout_ref.ref", "log_prob", ref, megatron=ref.megatron),
        ),
        "critic": (critic.use_dynamic_bsz, budget("critic", "ppo", critic, megatron=critic.megatron, multiple=values)),
        "values": (critic.use_dynamic_bsz, budget("critic", "forward", critic, megatron=judges)),
        "reward": (reward.use_dynamic_bsz, budget("reward_model", "forward", reward, megatron=reward.megatron)),
    }
    return {name: each for name, (switched_on, each) in table.items() if switched_on}


def sft_budget(config: SFTConfig) -> Budget | None:
    """None where micro-batches are cut by samples."""
    return _of_one_model(config, rows=1)


def rm_budget(config: RMConfig) -> Budget | None:
    """A sample is a pair; None where micro-batches are cut by pairs."""
    return _of_one_model(config, rows=2)


def _of_one_model(config: OneModelConfig, *, rows: int) -> Budget | None:
    if not config.data.use_dynamic_bsz:
        return None
    pads_to = row_multiple(config.megatron)
    return Budget(config.data.max_token_len_per_gpu, "data.max_token_len_per_gpu", pads_to=pads_to, rows=rows)
