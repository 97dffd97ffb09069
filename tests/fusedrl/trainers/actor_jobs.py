"""What tests run on an actor alone: log-probabilities by any cut into micro-batches, memory of its loss.

Shapes: B samples, R response tokens.
"""

from pathlib import Path
from typing import Any

import torch

from fusedrl.config.schema import ActorConfig, AlgorithmConfig, ScheduleConfig
from fusedrl.models.architecture import Architecture
from fusedrl.models.hf_export import write_random_hf
from fusedrl.rollout.requests import Completion
from fusedrl.trainers import forward, losses
from fusedrl.trainers.experience import make_experience
from fusedrl.trainers.forward import Inference, infer
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.roles import make_executor
from fusedrl.trainers.samples import gather_samples
from fusedrl.trainers.update import Learner, update
from tests.distributed.trainer_jobs import TIMEOUT_S, WIDTH, budget, build, random_samples

PROMPT, RESPONSE, ROWS = 40, 24, 3


def log_probs_by_cut(folder: str, *, micro_batches: tuple[int, ...], budgets: tuple[int, ...]) -> list[Any]:
    """[B, R] for each number of samples a micro-batch, then for each budget of tokens; nothing where masked."""
    actor, _ = build(folder, tp=1, pp=2)
    executor = make_executor([actor], timeout_s=TIMEOUT_S)
    samples = random_samples(8)
    collect = forward.log_probs(actor, temperature=0.7, width=WIDTH, with_entropy=False)
    found = []
    for micro, tokens in [(each, 0) for each in micro_batches] + [(1, each) for each in budgets]:
        cut = Inference(actor, micro, ("logp",), WIDTH, collect, budget(tokens))
        logp_BR = infer({"actor": cut}, samples, executor=executor, planner=Planner(ScheduleConfig()))["logp"]
        found.append(logp_BR.masked_fill(~samples.mask_BR, 0.0).numpy())
    return found


def memory_of_loss(folder: str, *, entropy_coeff: float, rows: int) -> tuple[list[float], list[float]]:
    """MiB of each rank in an update of ROWS samples, `rows` in a micro-batch: measured, planned."""
    actor, _ = build(folder, tp=1, pp=2)
    response: dict[str, Any] = {"tokens": (5,) * RESPONSE, "logprobs": (-1.0,) * RESPONSE, "finish_reason": "stop"}
    completions = [Completion(sample_id=i, prompt=(3 + i,) * PROMPT, **response) for i in range(ROWS)]
    samples = gather_samples(completions, max_response_length=RESPONSE, pad_id=0)
    logp_BR = torch.full((ROWS, RESPONSE), -1.0)
    found = {"logp": logp_BR, "values": logp_BR, "ref_logp": logp_BR}
    experience = make_experience(samples, torch.zeros(ROWS), found, algorithm=AlgorithmConfig(), kl_coef=0.0)
    config = ActorConfig(entropy_coeff=entropy_coeff, use_kl_loss=True)
    learner = Learner(actor, rows, lambda mask: losses.policy_loss(config, mask, actor=actor, temperature=1.0))
    executor, planner = make_executor([actor], timeout_s=TIMEOUT_S), Planner(ScheduleConfig())
    options: dict[str, Any] = {"executor": executor, "planner": planner, "measure_memory": True}
    peaks = update({"actor": learner}, experience, torch.arange(ROWS), **options).report.peaks
    assert peaks is not None
    return [nbytes / 2**20 for nbytes in peaks.nbytes], list(peaks.planned)


def large_vocabulary(parent: Path) -> str:
    """A checkpoint whose logits outweigh all else that its last stage keeps."""
    arch = Architecture(
        family="llama",
        hidden_size=32,
        num_layers=2,
        num_heads=2,
        num_kv_heads=2,
        head_dim=16,
        ffn_hidden_size=64,
        vocab_size=2000,
        max_position=64,
        eos_token_ids=(1,),
    )
    return str(write_random_hf(arch, parent / "large", seed=0))
