"""What the tests of PPO-ptx run on gloo ranks: gradients of the policy loss, of given answers, and of both."""

from dataclasses import replace

import torch

from fusedrl.config.schema import ActorConfig, ScheduleConfig
from fusedrl.data.sampler import RowSampler
from fusedrl.data.sft import Example
from fusedrl.pipeline.results import gather_report
from fusedrl.pipeline.training import train_pass
from fusedrl.trainers import losses
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.prompting import ExampleSource
from fusedrl.trainers.ptx import METRIC, Ptx
from fusedrl.trainers.roles import make_executor
from fusedrl.trainers.update import Learner, work_of
from tests.distributed import trainer_jobs as jobs

COEFF = 0.25


def ptx_of(rows: int) -> Ptx:
    """Rows of different lengths, their answers from different places; 8 rows of them an optimizer step, 2 steps."""
    examples = [
        Example(tuple(3 + (7 * row + place) % 30 for place in range(5 + row % 4)), 1 + row % 3) for row in range(rows)
    ]
    sampler = RowSampler(size=rows, seed=3, shuffle=True)
    return Ptx(ExampleSource(examples, [], sampler, pad_id=0, too_long=0), size=8, steps=2, coeff=COEFF)


def gradients(folder: str, *, tp: int, pp: int, on: str | None = None) -> dict[str, list[float]]:
    """By what is learnt, all gradients of this rank end to end, and the metric of the answers' likelihood; answers with
    their weight and without, alone and in one pass with the policy loss. on: the ranks of the actor."""
    actor, _ = jobs.build(folder, tp=tp, pp=pp, ranks=(on, on))
    executor, planner = make_executor([actor], timeout_s=jobs.TIMEOUT_S), Planner(ScheduleConfig(method="serial"))
    samples = jobs.random_samples(8)
    blank_BR = torch.zeros(8, jobs.WIDTH)
    found = {"ref_logp": blank_BR, "logp": blank_BR - 3.0, "values": blank_BR}
    experience = jobs.experience_of(samples, found=found)
    policy = Learner(actor, 2, lambda mask: losses.policy_loss(ActorConfig(), mask, actor=actor, temperature=1.0))
    both = replace(policy, beside=ptx_of(11).beside(actor, step=2, micro_batch=3, budget=None))
    assert both.beside is not None
    passes = {"policy": work_of(policy, experience, torch.arange(8), 1), "answers": both.beside(1)}
    passes["unweighted"] = replace(ptx_of(11), coeff=1.0).beside(actor, step=2, micro_batch=3, budget=None)(1)
    passes["both"] = work_of(both, experience, torch.arange(8), 1)
    told: dict[str, list[float]] = {}
    for name, work in passes.items():
        program = planner.program({"actor": (actor, work)})
        models = {"actor": actor.trained} if actor.held else {}
        result = train_pass(executor, program, {"actor": work}, models=models)
        told[name] = [number for p in actor.module.parameters() for number in p.main_grad.flatten().tolist()]
        told[f"{name}/metric"] = [gather_report(executor, program, result).metrics["actor"].get(METRIC, 0.0)]
    return told
