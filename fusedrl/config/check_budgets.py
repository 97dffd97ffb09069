"""Checks of token budgets. Each check returns one line per problem: key, numbers, what would fit."""

from collections.abc import Iterable, Iterator, Mapping

from fusedrl.config.budgets import Budget, ppo_budgets, rm_budget, sft_budget
from fusedrl.config.check_layout import layouts
from fusedrl.config.schema import OneModelConfig, PPOConfig, RMConfig, SFTConfig


def check_ppo_budgets(config: PPOConfig, *, dp: Mapping[str, int]) -> Iterator[str]:
    """Budgets of the models that are built; `dp`: replicas of actor and critic, by name."""
    built, budgets = layouts(config), ppo_budgets(config)
    of = {"log_prob": "actor", "values": "critic"}  # passes of a model besides its training
    used = [each for name, each in budgets.items() if of.get(name, name) in built]
    prompt, response = config.data.max_prompt_length, config.data.max_response_length
    told = f"data.max_prompt_length={prompt} + data.max_response_length={response}"
    yield from _check_longest(used, longest=prompt + response, told=told)
    for name, role in (("actor", config.actor_rollout_ref.actor), ("critic", config.critic)):
        if name in budgets and name in built:
            yield from _check_order(budgets[name], config.schedule.method, samples=role.ppo_mini_batch_size // dp[name])


def check_sft_budget(config: SFTConfig) -> Iterator[str]:
    yield from _check_one_model(config, sft_budget(config))


def check_rm_budget(config: RMConfig) -> Iterator[str]:
    yield from _check_one_model(config, rm_budget(config))


def _check_one_model(config: OneModelConfig, budget: Budget | None) -> Iterator[str]:
    if budget is not None:
        length = config.data.max_length
        yield from _check_longest([budget], longest=length, told=f"data.max_length={length}")


def _check_longest(budgets: Iterable[Budget], *, longest: int, told: str) -> Iterator[str]:
    """A sample that is longer than its budget has no micro-batch."""
    for budget in budgets:
        padded = budget.padded(longest)
        if budget.tokens < padded:
            more = f" in {budget.rows} rows" if budget.rows > 1 else ""
            more += f" (padded to {padded})" if padded > longest * budget.rows else ""
            too_low = f"{budget.key}={budget.tokens} is below the longest sample"
            yield f"{too_low}, {told}{more}; raise it to {padded} or more"


def _check_order(budget: Budget, method: str, *, samples: int) -> Iterator[str]:
    """Orders that fix the number of micro-batches. `samples`: of a mini-batch on one replica."""
    if method.startswith("file:"):
        yield (
            f"schedule.method={method}: an order from a file has one number of micro-batches, which varies under "
            f"{budget.key}; set use_dynamic_bsz=false beside it"
        )
    if samples % budget.multiple:
        yield (
            f"schedule.method={method} needs micro-batches in multiples of {budget.multiple}, which {samples} samples "
            f"of a mini-batch on each replica may not fill ({budget.key}); make them a multiple of it"
        )
