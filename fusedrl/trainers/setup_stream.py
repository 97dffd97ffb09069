"""The stream of a run (streaming.py) from its configuration: copies of the models, then readers and workers.

Copies are made before the engine, which takes its cache from the memory that is left.
"""

from collections.abc import Mapping, Sequence

from fusedrl.config.schema import PPOConfig
from fusedrl.models.architecture import Architecture
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.team import current
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.team import RunnerTeam
from fusedrl.rollout.megatron import MegatronEngine
from fusedrl.trainers import forward
from fusedrl.trainers.generation import Generator
from fusedrl.trainers.prompting import PromptSource
from fusedrl.trainers.readers import Reader, Readers, copy_groups, copy_of, frozen_copy, of_engine
from fusedrl.trainers.retokenizing import Retokenizer
from fusedrl.trainers.roles import Role, RoleSpec
from fusedrl.trainers.streaming import SampleStream

KEY = "actor_rollout_ref.rollout"


def model_copies(trained: Mapping[str, Role], frozen: Sequence[RoleSpec], config: PPOConfig) -> dict[str, Role]:
    """Critic, reference and reward model, where there are any, in the generation layout. A collective of all ranks."""
    layout = _layout(config)
    groups = copy_groups(layout, timeout_s=config.trainer.timeout_s, key=KEY)
    copies = {"critic": copy_of(trained["critic"], layout=layout, groups=groups)} if "critic" in trained else {}
    for spec in frozen:
        copies[spec.name] = frozen_copy(spec, Architecture.from_folder(spec.folder), layout=layout, groups=groups)
    return copies


def make_stream(
    config: PPOConfig,
    actor: Role,
    copies: Mapping[str, Role],
    generator: Generator,
    runner: RewardRunner | RunnerTeam | None,
    prompts: PromptSource,
    retokenizer: Retokenizer | None,
) -> SampleStream:
    """A collective of all ranks."""
    rollout, width = config.actor_rollout_ref.rollout, config.data.max_response_length
    assert isinstance(generator.engine, MegatronEngine)  # the configuration's check
    reading = of_engine(actor, generator.engine.model, layout=_layout(config), groups=generator.groups)
    offload = [name for name in copies if rollout.offload_copies and reading.device.type == "cuda"]
    readers = {name: _reader(role, config, retokenizer) for name, role in {"actor": reading, **copies}.items()}
    return SampleStream(
        rollout,
        generator,
        Readers(readers, width=width, pad_id=prompts.pad_token_id, offload=offload),
        width=width,
        pad_id=prompts.pad_token_id,
        decode=prompts.decode,
        scored=bool(config.custom_reward_function.path or config.data.task.name),
        runners=runner.runners if isinstance(runner, RunnerTeam) else (),
        timeout_s=config.trainer.timeout_s,
    )


def _layout(config: PPOConfig) -> Layout:
    tp = config.actor_rollout_ref.rollout.tensor_model_parallel_size
    return Layout.for_world(current().size, tp=tp, key=KEY)


def _reader(role: Role, config: PPOConfig, retokenizer: Retokenizer | None = None) -> Reader:
    """What each model is asked, as the pipeline's passes ask it (ppo.py)."""
    width, temperature = config.data.max_response_length, config.actor_rollout_ref.rollout.temperature
    if role.name == "critic":
        return Reader(role, ("values",), forward.values(role, width=width))
    if role.name == "reward":
        collect = forward.last_scores(role, weight=config.reward_model.weight)
        return Reader(role, ("rm_score",), collect, by_token=False, retokenizer=retokenizer)
    names = ("logp", "entropy") if role.name == "actor" else ("ref_logp",)
    collect = forward.log_probs(role, temperature=temperature, width=width, with_entropy=role.name == "actor")
    return Reader(role, names, collect)
