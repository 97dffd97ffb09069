"""From a checked configuration to a PPO run on this rank: data, models, generator, executor, outputs.

Every rank runs this in the same sequence: the calls that make process groups meet.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fusedrl.config.check_layout import needs_critic
from fusedrl.config.derive import derive_ppo, total_steps
from fusedrl.config.schema import AlgorithmConfig, PPOConfig
from fusedrl.data.tokenizer import Tokenizer
from fusedrl.parallel.team import current, leads
from fusedrl.pipeline.plan import may_split
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.team import RunnerTeam
from fusedrl.rl.kl import AdaptiveController, FixedController
from fusedrl.trainers.checkpointing import Checkpoints, resume_from
from fusedrl.trainers.device_memory import check_memory_share
from fusedrl.trainers.generation import Generator, build_generator
from fusedrl.trainers.offloading import Offloading
from fusedrl.trainers.outputs import Outputs
from fusedrl.trainers.partial import PartialRollout
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.ppo import PPO
from fusedrl.trainers.prompting import PromptSource, prompt_source
from fusedrl.trainers.ptx import make_ptx
from fusedrl.trainers.reading import Reading, make_reading
from fusedrl.trainers.records import open_records
from fusedrl.trainers.resuming import ppo_identity
from fusedrl.trainers.retokenizing import make_retokenizer, retokenizing_line
from fusedrl.trainers.roles import Role, RoleSpec, TrainedRole, build_role, build_trained_role, make_executor
from fusedrl.trainers.scoring import function_path, open_runner
from fusedrl.trainers.setup_stream import make_stream, model_copies


@contextmanager
def ppo_run(config: PPOConfig, *, command: list[str]) -> Iterator[tuple[PPO, int]]:
    """(the run, its number of steps). Worker processes and log files are closed at the end."""
    prompts = prompt_source(config.data, Tokenizer(config.actor_rollout_ref.model.path))
    sizes = derive_ppo(config, world=current().size)
    steps = total_steps(config.trainer, rows=len(prompts.train), batch=config.data.train_batch_size)
    own = ppo_identity(config)
    start = resume_from(config.trainer, command="ppo", own=own)
    with ExitStack() as closing:
        logger = closing.enter_context(open_records(config, sizes=sizes, steps=steps, command=command, start=start))
        if prompts.too_long:
            logger.say(f"{prompts.too_long} prompts were too long (data.truncation={config.data.truncation})")
        if (retokenizer := make_retokenizer(config, prompts.tokenizer)) is not None:
            logger.say(retokenizing_line(config, retokenizer))
        trained = _trained(config, updates=steps * sizes.updates_per_step)
        actor = trained["actor"]
        rollout, timeout_s = config.actor_rollout_ref.rollout, config.trainer.timeout_s
        streams = rollout.inference == "instances"
        frozen = {} if streams else _frozen(config)
        copies = model_copies(trained, _frozen_specs(config), config) if streams else {}
        check_memory_share(config.schedule, actor.device)
        planner = Planner(config.schedule)
        closing.callback(planner.close)
        length = config.data.max_prompt_length + config.data.max_response_length
        memory = Offloading.of(config, {**trained, **frozen})
        reading = Reading() if streams else make_reading(config, trained, frozen)
        memory.offload()  # an engine on a GPU takes its cache from what is free while it generates
        generator = build_generator(actor, rollout, max_length=length, timeout_s=timeout_s)
        memory.for_training()
        runner = _runner(config, closing)
        run = PPO(
            config=config,
            prompts=prompts,
            actor=actor,
            critic=trained.get("critic"),
            reference=frozen.get("ref"),
            reward=frozen.get("reward"),
            generator=generator,
            executor=make_executor([*trained.values(), *frozen.values(), *reading.copies], timeout_s=timeout_s),
            planner=planner,
            runner=runner,
            stream=make_stream(config, actor, copies, generator, runner, prompts, retokenizer) if streams else None,
            retokenizer=retokenizer,
            partial=_partial(config, prompts, generator) if rollout.partial_rollout else None,
            ptx=make_ptx(config, prompts.tokenizer, steps=sizes.updates_per_step),
            kl=_controller(config.algorithm),
            logger=logger,
            outputs=Outputs(Path(config.trainer.default_local_dir), config.actor_rollout_ref.model.path),
            checkpoints=Checkpoints(config, "ppo", own, trained, prompts.sampler, start, logger.say),
            memory=memory,
            reading=reading,
        )
        run.restore()
        yield run, steps


def _trained(config: PPOConfig, *, updates: int) -> dict[str, TrainedRole]:
    """The actor, and the critic where the advantages come from one."""
    policy, critic = config.actor_rollout_ref, config.critic
    place: dict[str, Any] = {"placement": config.schedule.placement, "splits": may_split(config.schedule.method)}
    options: dict[str, Any] = {"steps": updates, "seed": config.trainer.seed, "timeout_s": config.trainer.timeout_s}
    spec = RoleSpec.of(
        "actor", policy.actor.megatron, key="actor_rollout_ref.actor.megatron", folder=policy.model.path, **place
    )
    distributed = policy.actor.megatron.use_distributed_optimizer
    found = {"actor": build_trained_role(spec, policy.actor.optim, distributed_optimizer=distributed, **options)}
    if needs_critic(config):
        place |= {"head": "value", "reverse": True}
        spec = RoleSpec.of("critic", critic.megatron, key="critic.megatron", folder=critic.model.path, **place)
        distributed = critic.megatron.use_distributed_optimizer
        found["critic"] = build_trained_role(spec, critic.optim, distributed_optimizer=distributed, **options)
    return found


def _frozen(config: PPOConfig) -> dict[str, Role]:
    options: dict[str, Any] = {"seed": config.trainer.seed, "timeout_s": config.trainer.timeout_s}
    return {spec.name: build_role(spec, **options) for spec in _frozen_specs(config)}


def _frozen_specs(config: PPOConfig) -> list[RoleSpec]:
    """The reference where a KL to it is used, the reward model where it is switched on."""
    policy, reward = config.actor_rollout_ref, config.reward_model
    specs = []
    if config.algorithm.use_kl_in_reward or policy.actor.use_kl_loss:
        key = "actor_rollout_ref.ref.megatron"
        specs.append(RoleSpec.of("ref", policy.ref.megatron, key=key, folder=policy.model.path))
    if reward.enable:
        assert reward.model.path is not None  # the configuration's check
        key = "reward_model.megatron"
        specs.append(RoleSpec.of("reward", reward.megatron, key=key, folder=reward.model.path, head="value"))
    return specs


def _runner(config: PPOConfig, closing: ExitStack) -> RewardRunner | RunnerTeam | None:
    """Rank 0's reward function; none with a reward model alone. A stream gives samples to workers one by one, so each
    has a runner of its own."""
    function, path = config.custom_reward_function, function_path(config)
    if not leads() or path is None:
        return None

    def runner(workers: int) -> RewardRunner:
        return closing.enter_context(open_runner(path, function, workers=workers))

    if config.actor_rollout_ref.rollout.inference == "pipeline":
        return runner(function.num_workers)
    return RunnerTeam([runner(1) for _ in range(function.num_workers)])


def _partial(config: PPOConfig, prompts: PromptSource, generator: Generator) -> PartialRollout:
    rollout, batch = config.actor_rollout_ref.rollout, config.data.train_batch_size
    assert rollout.over_sampling_batch_size is not None  # the configuration's check
    longest = config.data.max_response_length
    return PartialRollout(prompts, generator, rollout.n, batch, rollout.over_sampling_batch_size, longest)


def _controller(algorithm: AlgorithmConfig) -> FixedController | AdaptiveController:
    control = algorithm.kl_ctrl
    if control.type == "fixed":
        return FixedController(control.kl_coef)
    return AdaptiveController(control.kl_coef, target=control.target_kl, horizon=control.horizon)
