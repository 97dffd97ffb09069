"""What the tests of fusedrl.trainers run on gloo ranks: a tiny actor, critic and reference on random samples.

Shapes: B samples, S tokens of a row, R response tokens.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.config.budgets import Budget
from fusedrl.config.schema import (
    ActorConfig,
    AlgorithmConfig,
    CriticConfig,
    MegatronConfig,
    OptimConfig,
    RolloutConfig,
    ScheduleConfig,
)
from fusedrl.config.schema.parallel import LearningMegatronConfig
from fusedrl.rollout.requests import Completion
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.trainers import forward, losses
from fusedrl.trainers.experience import Experience, make_experience
from fusedrl.trainers.forward import Inference, infer
from fusedrl.trainers.generation import build_generator
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.roles import RoleSpec, TrainedRole, build_role, build_trained_role, make_executor
from fusedrl.trainers.samples import Samples, gather_samples
from fusedrl.trainers.update import Learner, mini_batches, update

WIDTH = 6  # response tokens
VOCAB = 40
TIMEOUT_S = 60.0


def random_samples(size: int) -> Samples:
    generator = torch.Generator().manual_seed(5)

    def draw(low: int, high: int, count: int) -> tuple[int, ...]:
        return tuple(torch.randint(low, high, (count,), generator=generator).tolist())

    completions = []
    for index in range(size):
        prompt, response = draw(3, VOCAB, 2 + index % 4), draw(3, VOCAB, 1 + index % WIDTH)
        logprobs = tuple(-1.0 for _ in response)
        completions.append(
            Completion(sample_id=index, prompt=prompt, tokens=response, logprobs=logprobs, finish_reason="stop")
        )
    return gather_samples(completions, max_response_length=WIDTH, pad_id=0)


def build(
    folder: str,
    *,
    tp: int,
    pp: int,
    placement: str = "line",
    critic_sizes: tuple[int, int] | None = None,
    keys: Mapping[str, Any] | None = None,
    ranks: tuple[str | None, str | None] = (None, None),
) -> tuple[TrainedRole, TrainedRole]:
    """critic_sizes: tp and pp of a critic that has others. keys: more of both layouts' configuration. ranks: where
    actor and critic lie."""
    megatron, of_critic = (
        LearningMegatronConfig(
            tensor_model_parallel_size=sizes[0], pipeline_model_parallel_size=sizes[1], ranks=on, **(keys or {})
        )
        for sizes, on in zip(((tp, pp), critic_sizes or (tp, pp)), ranks, strict=True)
    )
    optim = OptimConfig(lr=1e-2)
    place: dict[str, Any] = {"placement": placement, "splits": True}
    actor = RoleSpec.of("actor", megatron, key="actor", folder=folder, **place)
    critic = RoleSpec.of("critic", of_critic, key="critic", folder=folder, head="value", reverse=True, **place)
    options: dict[str, Any] = {"distributed_optimizer": False, "steps": 100, "seed": 0, "timeout_s": TIMEOUT_S}
    return build_trained_role(actor, optim, **options), build_trained_role(critic, optim, **options)


def budget(tokens: int, *, multiple: int = 1) -> Budget | None:
    return Budget(tokens, "tokens", multiple) if tokens else None


def experience_of(samples: Samples, *, found: dict[str, torch.Tensor]) -> Experience:
    score_B = torch.arange(samples.size) % 3 / 2.0
    return make_experience(samples, score_B, found, algorithm=AlgorithmConfig(use_kl_in_reward=True), kl_coef=0.1)


def infer_all(
    folder: str,
    *,
    tp: int,
    pp: int,
    ref_pp: int,
    tokens: tuple[int, ...] = (0, 0, 0),
    keys: Mapping[str, Any] | None = None,
) -> dict[str, list[Any]]:
    """Log-probabilities, entropy, reference log-probabilities and values of random samples.

    tokens: budgets of actor, critic and reference; 0: micro-batches by samples. keys: more of all layouts.
    """
    actor, critic = build(folder, tp=tp, pp=pp, keys=keys)
    ref_layout = MegatronConfig(pipeline_model_parallel_size=ref_pp, **(keys or {}))
    ref = build_role(RoleSpec.of("ref", ref_layout, key="ref", folder=folder), seed=0, timeout_s=TIMEOUT_S)
    samples = random_samples(8)
    logp = forward.log_probs(actor, temperature=0.7, width=WIDTH, with_entropy=True)
    ref_logp = forward.log_probs(ref, temperature=0.7, width=WIDTH, with_entropy=False)
    budgets = [budget(each) for each in tokens]
    found = infer(
        {
            "actor": Inference(actor, 2, ("logp", "entropy"), WIDTH, logp, budgets[0]),
            "critic": Inference(critic, 4, ("values",), WIDTH, forward.values(critic, width=WIDTH), budgets[1]),
            "ref": Inference(ref, 1, ("ref_logp",), WIDTH, ref_logp, budgets[2]),
        },
        samples,
        executor=make_executor([actor, critic, ref], timeout_s=TIMEOUT_S),
        planner=Planner(ScheduleConfig()),
    )
    mask_BR = samples.mask_BR
    return {name: x_BR.masked_fill(~mask_BR, 0.0).tolist() for name, x_BR in found.items()}


def train(
    folder: str,
    *,
    tp: int,
    pp: int,
    method: str,
    actor_micro: int,
    critic_micro: int,
    placement: str = "line",
    tokens: tuple[int, ...] = (0, 0),
    multiple: int = 1,
    profile: bool = True,
    critic_sizes: tuple[int, int] | None = None,
    keys: Mapping[str, Any] | None = None,
    ranks: tuple[str | None, str | None] = (None, None),
) -> dict[str, Any]:
    """Two epochs of two mini-batches; metrics of all updates, this rank's weights, planned times of all F0.

    tokens: budgets of actor and critic, in place of the numbers of samples; 0: none. multiple: of its micro-batches.
    critic_sizes: tp and pp of a critic that has others. keys: more of both layouts. ranks: of actor and critic.
    """
    actor, critic = build(folder, tp=tp, pp=pp, placement=placement, critic_sizes=critic_sizes, keys=keys, ranks=ranks)
    executor = make_executor([actor, critic], timeout_s=TIMEOUT_S)
    planner = Planner(ScheduleConfig(method=method, profile=profile))
    samples = random_samples(16)
    actor_budget, critic_budget = (budget(each, multiple=multiple) for each in tokens)
    logp = forward.log_probs(actor, temperature=1.0, width=WIDTH, with_entropy=False)
    inferences = {
        "actor": Inference(actor, actor_micro, ("logp",), WIDTH, logp, actor_budget),
        "critic": Inference(
            critic, critic_micro, ("values",), WIDTH, forward.values(critic, width=WIDTH), critic_budget
        ),
    }
    found = infer(inferences, samples, executor=executor, planner=planner)
    experience = experience_of(samples, found={**found, "ref_logp": found["logp"] - 0.1})
    actor_config, critic_config = ActorConfig(use_kl_loss=True, entropy_coeff=0.01), CriticConfig()
    learners = {
        "actor": Learner(
            actor,
            actor_micro,
            lambda mask: losses.policy_loss(actor_config, mask, actor=actor, temperature=1.0),
            actor_budget,
        ),
        "critic": Learner(
            critic, critic_micro, lambda mask: losses.value_loss(critic_config, mask, critic=critic), critic_budget
        ),
    }
    updates = [
        update(learners, experience, rows_N, executor=executor, planner=planner)
        for rows_N in mini_batches(samples, size=8, epochs=2, shuffle=True, seed=3)
    ]
    state = [p.detach().clone() for role in (actor, critic) for p in role.module.parameters()]
    models = [model for each in updates for model in each.program.problem.models]
    planned = [[model.duration("F", 0, m) for m in range(model.microbatches)] for model in models]
    metrics = [each.metrics for each in updates]
    return {"metrics": metrics, "state": state, "mean": experience.metrics(), "planned": planned}


def generate(
    folder: str,
    *,
    tp: int,
    pp: int,
    rollout_tp: int,
    rollout_pp: int = 1,
    placement: str = "line",
    cp: int = 1,
    ranks: tuple[str | None, str | None] = (None, None),
    rollout_ranks: str | None = None,
) -> list[list[int]]:
    """Greedy responses of the generating copy after it took over the trained layout's weights."""
    actor, _ = build(folder, tp=tp, pp=pp, placement=placement, keys={"context_parallel_size": cp}, ranks=ranks)
    config = RolloutConfig(
        ranks=rollout_ranks,
        tensor_model_parallel_size=rollout_tp,
        pipeline_model_parallel_size=rollout_pp,
        max_running_requests=3,
        max_total_tokens=40,
    )
    generator = build_generator(actor, config, max_length=16, timeout_s=TIMEOUT_S)
    with torch.no_grad():
        for parameter in actor.module.parameters():
            parameter.add_(0.01)
    generator.load(actor)
    prompts = [[3 + i, 4, 5 + i][: 1 + i % 3] for i in range(8)]
    params = SamplingParams(temperature=0.0, max_tokens=WIDTH)
    completions = generator.generate(prompts, n=2, params=params)
    if dist.get_rank() == 0:
        assert [c.sample_id for c in completions] == list(range(16))
    return [list(c.tokens) for c in completions]


def folder_of(parent: Path, *, tied: bool = False) -> str:
    """A tiny checkpoint that layouts up to tp 2, pp 4 can hold."""
    from fusedrl.models.architecture import Architecture
    from fusedrl.models.hf_export import write_random_hf

    arch = Architecture(
        family="llama",
        hidden_size=32,
        num_layers=4,
        num_heads=4,
        num_kv_heads=2,
        head_dim=8,
        ffn_hidden_size=48,
        vocab_size=VOCAB,
        max_position=64,
        initializer_range=0.2,
        tied=tied,
        eos_token_ids=(2,),
        pad_token_id=0,
    )
    return str(write_random_hf(arch, parent / "model", seed=1))
