"""A plan as arguments of `-m fusedrl.ppo`: ranks, layouts, micro-batches, sizes of a step, the order of training."""

from collections.abc import Iterator

from fusedrl.plan.build import TRAINING
from fusedrl.plan.calls import CALLS, Way
from fusedrl.plan.planner import Plan
from fusedrl.plan.streamed import CHUNK, STREAMED

POLICY = "actor_rollout_ref"
SECTIONS = {
    "actor_train": f"{POLICY}.actor.megatron",
    "critic_train": "critic.megatron",
    "ref": f"{POLICY}.ref.megatron",
    "reward": "reward_model.megatron",
    "actor_logp": f"{POLICY}.actor.inference_megatron",
    "critic_values": "critic.inference_megatron",
}
BUDGETS = {  # call -> (switch, tokens)
    "actor_train": (f"{POLICY}.actor.use_dynamic_bsz", f"{POLICY}.actor.ppo_max_token_len_per_gpu"),
    "actor_logp": (f"{POLICY}.rollout.log_prob_use_dynamic_bsz", f"{POLICY}.rollout.log_prob_max_token_len_per_gpu"),
    "ref": (f"{POLICY}.ref.log_prob_use_dynamic_bsz", f"{POLICY}.ref.log_prob_max_token_len_per_gpu"),
    "critic_train": ("critic.use_dynamic_bsz", "critic.ppo_max_token_len_per_gpu"),
    "critic_values": ("critic.use_dynamic_bsz", "critic.forward_max_token_len_per_gpu"),
    "reward": ("reward_model.use_dynamic_bsz", "reward_model.forward_max_token_len_per_gpu"),
}


def overrides(plan: Plan) -> list[str]:
    """`key=value` arguments, in a fixed order."""
    return [f"{key}={_text(value)}" for key, value in _all(plan)]


def not_taken(plan: Plan) -> list[str]:
    """What of the plan the trainer cannot be told."""
    return [f"ZeRO-3 of {call}" for call, way in plan.ways.items() if way.zero]


def _all(plan: Plan) -> Iterator[tuple[str, object]]:
    yield from _step(plan)
    for call, section in SECTIONS.items():
        if call in plan.ways and not (plan.streamed and CALLS[call].source is not None):
            way, source = plan.ways[call], CALLS[call].source
            if source is None or way.shape != plan.ways[source].shape or way.cp != plan.ways[source].cp:
                yield from _layout(plan, call, way, section)
    for call, (switch, budget) in BUDGETS.items():
        if call in plan.ways and not (plan.streamed and call in STREAMED):
            yield switch, True
            yield budget, plan.ways[call].size
    yield from _generation(plan)
    if set(TRAINING) <= set(plan.ways):
        yield "schedule.method", "fused" if plan.fused else "serial"


def _step(plan: Plan) -> Iterator[tuple[str, object]]:
    work = plan.pricer.work
    yield "data.train_batch_size", work.samples // work.n
    yield f"{POLICY}.rollout.n", work.n
    yield "data.max_prompt_length", work.prompt
    yield "data.max_response_length", work.longest
    yield f"{POLICY}.actor.ppo_mini_batch_size", work.mini_batch
    yield f"{POLICY}.actor.ppo_epochs", work.epochs


def _layout(plan: Plan, call: str, way: Way, section: str) -> Iterator[tuple[str, object]]:
    yield from _sizes(section, way)
    yield f"{section}.context_parallel_size", way.cp
    yield from _ranks(plan, section, way)
    if CALLS[call].source is not None:  # a copy; all else of it is as in training
        yield f"{section}.enable", True
        return
    yield f"{section}.use_remove_padding", way.cp == 1
    yield f"{section}.sequence_parallel", way.tp > 1
    if call in TRAINING:
        yield f"{section}.use_distributed_optimizer", plan.pricer.distributed_optimizer
        yield f"{section}.recompute_granularity", "full" if way.recompute else None
    else:
        yield f"{section}.resident", way.resident


def _generation(plan: Plan) -> Iterator[tuple[str, object]]:
    way, section = plan.ways["actor_gen"], f"{POLICY}.rollout"
    peak = plan.price("actor_gen").peak
    assert peak is not None
    yield from _sizes(section, way)
    yield from _ranks(plan, section, way)
    if plan.streamed:
        yield f"{section}.inference", "instances"
        yield f"{section}.streaming", True
        yield f"{section}.stream.chunk_tokens", CHUNK
    yield f"{section}.max_running_requests", way.size
    yield f"{section}.max_total_tokens", max(int(peak.peak_tokens) + 1, plan.pricer.work.row)


def _sizes(section: str, way: Way) -> Iterator[tuple[str, object]]:
    yield f"{section}.tensor_model_parallel_size", way.tp
    yield f"{section}.pipeline_model_parallel_size", way.pp


def _ranks(plan: Plan, section: str, way: Way) -> Iterator[tuple[str, object]]:
    if way.mesh.count != plan.pricer.costs.cluster.world:
        yield f"{section}.ranks", str(way.mesh)


def _text(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
