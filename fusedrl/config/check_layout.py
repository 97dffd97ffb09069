"""Checks that models divide over ranks. Each check returns one line per problem: key, numbers, what would fit."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from fusedrl.config.inference_layout import own_layouts
from fusedrl.config.numbers import common_divisors, counted, divisors, listed
from fusedrl.config.ranks import check_text, count_ranks, text_of
from fusedrl.config.schema import EngineConfig, MegatronConfig, PPOConfig, PPODataConfig, PromptDataConfig
from fusedrl.models.stage_layers import StageLayers
from fusedrl.parallel.placement import stages_a_column

TP = "tensor_model_parallel_size"
PP = "pipeline_model_parallel_size"
CP = "context_parallel_size"
SPLITTING = ("fused_split", "zero_bubble")  # schedule.method's that split backwards


class ModelNumbers(Protocol):
    """What the checks read of an architecture (fusedrl.models.architecture.Architecture has it all)."""

    @property
    def num_layers(self) -> int: ...
    @property
    def num_heads(self) -> int: ...
    @property
    def num_kv_heads(self) -> int: ...
    @property
    def ffn_hidden_size(self) -> int: ...
    @property
    def max_position(self) -> int: ...


def check_ranks(megatron: MegatronConfig, *, key: str, world: int) -> Iterator[str]:
    """tensor x context x pipeline divides the model's ranks; there is no other way to share a model out."""
    text = text_of(megatron)
    yield from check_text(text, world=world, key=f"{key}.ranks")
    count = count_ranks(text, world=world)
    tp, pp, cp = (getattr(megatron, size) for size in (TP, PP, CP))
    each = tp * cp * pp
    if megatron.use_remove_padding and cp > 1:
        given = f"{key}.use_remove_padding=true and {key}.{CP}={cp}"
        yield f"{given}: ranks share padded rows alone; switch one of them off"
    if count % each and text is not None:
        context = f"{key}.{CP}={cp} x " if cp > 1 else ""
        yield (
            f"{key}.ranks={text} are {count} ranks, which {key}.{TP}={tp} x {context}{key}.{PP}={pp} = {each} does not "
            f"divide; name a multiple of {each} ranks, or choose sizes that make {listed(divisors(count), near=each)}"
        )
    elif count % each:
        context = f"{key}.{CP}={cp} x " if cp > 1 else ""
        yield (
            f"{key}.{TP}={tp} x {context}{key}.{PP}={pp} = {each} does not divide the "
            f"{counted(world, 'rank')} of this job; start a multiple of {each} ranks, "
            f"or choose sizes that make {listed(divisors(world), near=each)}"
        )


def check_model(megatron: MegatronConfig, *, key: str, numbers: ModelNumbers, placement: str = "line") -> Iterator[str]:
    """Layers divide over stages; heads, KV heads and the feed-forward width over tensor ranks."""
    pp, each, layers = megatron.pipeline_model_parallel_size, stages_a_column(placement), numbers.num_layers
    shares = stage_layers(megatron)
    if not shares.even:
        try:
            counts = shares.over(pp * each, total=layers)
        except ValueError as error:
            yield f"{key}.{error}"
        else:
            yield from _check_recompute(megatron, key=key, counts=counts)
    elif layers % pp:
        fits = listed(divisors(layers), near=pp)
        yield f"{key}.{PP}={pp} does not divide the model's {layers} layers; set it to {fits}"
    elif layers % (pp * each):
        yield (
            f"{key}.{PP}={pp} with schedule.placement={placement} makes {pp * each} stages; they do not divide the "
            f"model's {layers} layers; use schedule.placement=line or another {PP}"
        )
    else:
        yield from _check_recompute(megatron, key=key, counts=(layers // (pp * each),))
    yield from check_tensor_split(f"{key}.{TP}", megatron.tensor_model_parallel_size, numbers=numbers)


def stage_layers(megatron: MegatronConfig) -> StageLayers:
    """What the configuration of a layout says about layers and stages."""
    each = None if megatron.pipeline_layers is None else tuple(megatron.pipeline_layers)
    return StageLayers(megatron.num_layers_in_first_pipeline_stage, megatron.num_layers_in_last_pipeline_stage, each)


def _check_recompute(megatron: MegatronConfig, *, key: str, counts: Sequence[int]) -> Iterator[str]:
    """Megatron-Core computes whole units of layers again."""
    unit = megatron.recompute_num_layers
    uniform = megatron.recompute_granularity == "full" and megatron.recompute_method == "uniform"
    misfits = [layers for layers in counts if layers % unit]
    if uniform and misfits:
        yield (
            f"{key}.recompute_num_layers={unit} does not divide the {misfits[0]} layers of a stage; set it to "
            f"{listed(common_divisors(*counts), near=unit)}, or {key}.recompute_method to block"
        )


def check_tensor_split(name: str, tp: int, *, numbers: ModelNumbers) -> Iterator[str]:
    """`name` is the full key that holds tp, a model's or the rollout's."""
    parts = {
        "attention heads": numbers.num_heads,
        "key-value heads": numbers.num_kv_heads,
        "feed-forward units": numbers.ffn_hidden_size,
    }
    broken = [f"{count} {part}" for part, count in parts.items() if count % tp]
    if broken:
        fits = listed(common_divisors(*parts.values()), near=tp)
        yield f"{name}={tp} does not divide the model's {', '.join(broken)}; set it to {fits}"


def layouts(config: PPOConfig) -> dict[str, tuple[str, MegatronConfig]]:
    """Role -> (key of its layout, layout), for the roles that this configuration builds."""
    policy = config.actor_rollout_ref
    found: dict[str, tuple[str, MegatronConfig]] = {}
    found["actor"] = ("actor_rollout_ref.actor.megatron", policy.actor.megatron)
    if needs_critic(config):
        found["critic"] = ("critic.megatron", config.critic.megatron)
    if needs_reference(config):
        found["ref"] = ("actor_rollout_ref.ref.megatron", policy.ref.megatron)
    if config.reward_model.enable:
        found["reward"] = ("reward_model.megatron", config.reward_model.megatron)
    return found


def needs_critic(config: PPOConfig) -> bool:
    """Whether the advantages come from a critic; the other estimators build none."""
    return config.algorithm.adv_estimator == "gae"


def needs_reference(config: PPOConfig) -> bool:
    """Whether a KL to the reference is used anywhere; without one no reference is built."""
    return config.algorithm.use_kl_in_reward or config.actor_rollout_ref.actor.use_kl_loss


def check_ppo_layouts(config: PPOConfig, *, world: int, models: Mapping[str, ModelNumbers]) -> Iterator[str]:
    """All layout checks of a PPO run. `models` by role (actor, critic, ref, reward); unknown ones are skipped."""
    for role, (key, megatron) in layouts(config).items():
        yield from check_ranks(megatron, key=key, world=world)
        if role in models:
            placement = config.schedule.placement if role in ("actor", "critic") else "line"
            yield from check_model(megatron, key=key, numbers=models[role], placement=placement)
    for role, key, megatron in own_layouts(config):
        yield from check_ranks(megatron, key=key, world=world)
        if role in models:
            yield from check_model(megatron, key=key, numbers=models[role])
    rollout, key = config.actor_rollout_ref.rollout, "actor_rollout_ref.rollout"
    yield from check_engine(rollout, config.data, key=key, world=world, numbers=models.get("actor"))
    yield from _check_split(config)
    yield from _check_placed(config)


def _check_placed(config: PPOConfig) -> Iterator[str]:
    """What only works where every model lies on all ranks."""
    rollout, key = config.actor_rollout_ref.rollout, "actor_rollout_ref.rollout"
    placed = {f"{each}.ranks": text_of(megatron) for each, megatron in layouts(config).values()}
    placed[f"{key}.ranks"] = rollout.ranks
    for _, own, _ in own_layouts(config):
        if rollout.inference == "instances":
            told = f"with {key}.inference=instances samples are read on the generation engines"
            yield f"{own}.enable=true: {told}; set it to false"
    for own, waits in (
        ("actor_rollout_ref.ref.megatron", config.actor_rollout_ref.ref.megatron),
        ("reward_model.megatron", config.reward_model.megatron),
    ):
        if not waits.resident and rollout.inference == "instances":
            told = f"with {key}.inference=instances copies on the engines read samples"
            yield f"{own}.resident=false: {told}, which {key}.offload_copies lets wait; set it to true"
    for name, text in placed.items():
        if text is not None and rollout.inference == "instances":
            yield f"{name}={text}: with {key}.inference=instances every model lies on all ranks; set it to null"
    for name in (f"{key}.ranks", "actor_rollout_ref.actor.megatron.ranks"):
        if placed[name] is not None and rollout.name == "vllm":
            yield f"{name}={placed[name]}: {key}.name=vllm takes weights on all ranks; set it to null"
    if rollout.ranks is not None and rollout.partial_rollout:
        yield f"{key}.ranks={rollout.ranks}: with {key}.partial_rollout all ranks generate; set it to null"


def check_engine(
    rollout: EngineConfig,
    data: PPODataConfig | PromptDataConfig,
    *,
    key: str,
    world: int,
    numbers: ModelNumbers | None,
) -> Iterator[str]:
    """The generating model divides over its ranks, its cache holds the longest samples. numbers: None where unknown."""
    tp, pp = getattr(rollout, TP), getattr(rollout, PP)
    text = text_of(rollout)
    yield from check_text(text, world=world, key=f"{key}.ranks")
    count = count_ranks(text, world=world)
    if count % (tp * pp):
        stages = f" x {key}.{PP}={pp} = {tp * pp}" if pp > 1 else ""
        fits = listed(divisors(count), near=tp * pp)
        whose = "of this job" if text is None else f"of {key}.ranks={text}"
        yield f"{key}.{TP}={tp}{stages} does not divide the {count} ranks {whose}; set it to {fits}"
    if numbers is not None:
        yield from check_tensor_split(f"{key}.{TP}", tp, numbers=numbers)
        layers = numbers.num_layers
        if layers % pp:
            fits = listed(divisors(layers), near=pp)
            yield f"{key}.{PP}={pp} does not divide the model's {layers} layers; set it to {fits}"
    yield from _check_cache(rollout, data, key=key)


def _check_cache(rollout: EngineConfig, data: PPODataConfig | PromptDataConfig, *, key: str) -> Iterator[str]:
    """Each batch in flight holds one sample of the greatest length at least; vLLM has neither stages nor this key."""
    if rollout.name == "vllm":
        alone = {PP: getattr(rollout, PP) > 1, "max_total_tokens": rollout.max_total_tokens is not None}
        for name in (name for name, given in alone.items() if given):
            yield f"{key}.{name}={getattr(rollout, name)} is for {key}.name=megatron; leave it out with vllm"
        return
    lanes = rollout.batches_in_flight or getattr(rollout, PP)
    needed = lanes * (data.max_prompt_length + data.max_response_length)
    if rollout.max_total_tokens is not None and rollout.max_total_tokens < needed:
        yield (
            f"{key}.max_total_tokens={rollout.max_total_tokens} is below {needed}: {lanes} batches in flight x "
            f"(data.max_prompt_length={data.max_prompt_length} + data.max_response_length={data.max_response_length}); "
            f"make it at least {needed}"
        )


def _check_split(config: PPOConfig) -> Iterator[str]:
    """Between the parts of a split backward a stage would hold what recomputing whole layers saves."""
    if config.schedule.method not in SPLITTING:
        return
    for key, megatron in (each for role, each in layouts(config).items() if role in ("actor", "critic")):
        if megatron.recompute_granularity == "full":
            yield (
                f"schedule.method={config.schedule.method} splits backwards, which {key}.recompute_granularity=full "
                f"does not allow; use selective, or a method other than {' and '.join(SPLITTING)}"
            )
