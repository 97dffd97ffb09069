"""What the ranks do in the tests of context parallelism and packed rows, beside whole training passes.

Shapes: B rows, T tokens of a row, L of a padded one, V the whole padded vocabulary.
"""

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.config.schema import MegatronConfig, OptimConfig, ScheduleConfig
from fusedrl.models.build import build_model
from fusedrl.models.options import StageOptions
from fusedrl.models.rope_settings import Rope
from fusedrl.parallel.context import gather_parts, gather_results, share_positions
from fusedrl.parallel.groups import build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.pipeline.executor import Work
from fusedrl.pipeline.megatron_stage import megatron_model
from fusedrl.pipeline.microbatch import MicroBatch, gather_microbatches
from fusedrl.pipeline.results import gather_report
from fusedrl.pipeline.training import train_pass
from fusedrl.trainers.cutting import replica_groups
from fusedrl.trainers.planning import Planner
from fusedrl.trainers.roles import RoleSpec, build_trained_role, make_executor
from fusedrl.trainers.sft import sft_loss
from tests.distributed.trainer_jobs import random_samples
from tests.fusedrl.pipeline.law_jobs import ARCH

YARN = Rope(theta=50.0, type="yarn", scaling={"factor": 4.0, "original_max_position_embeddings": 4.0, "beta_fast": 2.0})


def gathered(length: int) -> dict[str, Any]:
    """Positions that came from all ranks, in both ways, and what each way gives back to a rank."""
    group, rank = dist.group.WORLD, dist.get_rank()
    assert group is not None
    own = share_positions(length, size=group.size(), rank=rank, device=torch.device("cpu"))
    parts_C, results_BC = (own.double().requires_grad_() for _ in range(2))
    parts_L = gather_parts(parts_C, group=group)
    results_BL = gather_results(torch.stack([results_BC, 2 * results_BC]), group=group)
    (parts_L * (1 + rank)).sum().backward()  # each rank computes something else of the parts
    (results_BL * torch.arange(length)).sum().backward()  # and the same of the results
    assert parts_C.grad is not None
    assert results_BC.grad is not None
    return {
        "own": own.tolist(),
        "parts": parts_L.tolist(),
        "results": results_BL.tolist(),
        "to_parts": parts_C.grad.tolist(),
        "to_results": results_BC.grad.tolist(),
    }


def whole_logits(
    layout: tuple[int, ...], *, shapes: list[tuple[int, int]], options: StageOptions, family: str = "qwen2"
) -> list[list[Any]]:
    """[B, T, V] of one stage that holds the whole model, put together on every rank, for each micro-batch.

    Qwen3's positions are scaled by yarn.
    """
    plan = Layout(*layout)
    groups = build_groups(plan)
    arch = replace(ARCH, family=family, qkv_bias=family == "qwen2", rope=YARN if family == "qwen3" else Rope())
    module = build_model(arch, groups, seed=3, options=options, padded_vocab=256)
    model = megatron_model("actor", module, layout=plan, rank=dist.get_rank())
    generator = torch.Generator().manual_seed(2)
    found = []
    for rows, length in shapes:
        lengths = tuple(max(1, length - row) for row in range(rows))
        batch = MicroBatch(torch.randint(200, (rows, length), generator=generator), lengths=lengths)
        with torch.no_grad():
            output = model.stages[0](batch, None)
            found.append(_rows(_all_columns(output, groups.tp), model.tokens, batch).tolist())
    return found


def _all_columns(output: Tensor, group: dist.ProcessGroup) -> Tensor:
    parts = [torch.empty_like(output) for _ in range(group.size())]
    dist.all_gather(parts, output.contiguous(), group=group)
    return torch.cat(parts, dim=-1)


def _rows(output: Tensor, tokens: Any, batch: MicroBatch) -> Tensor:
    """Each column of the vocabulary is a result a token."""
    return torch.stack([tokens.spread(column, batch) for column in output.unbind(-1)], dim=-1)


def supervised(folder: str, *, pp: int, keys: dict[str, Any]) -> dict[str, float]:
    """Loss and gradient norm of two steps of supervised fine-tuning on ragged rows. keys: of the layout."""
    megatron = MegatronConfig(pipeline_model_parallel_size=pp, **keys)
    spec = RoleSpec.of("model", megatron, key="megatron", folder=folder)
    options: dict[str, Any] = {"distributed_optimizer": False, "steps": 10, "seed": 0, "timeout_s": 60.0}
    model = build_trained_role(spec, OptimConfig(lr=1e-2), **options)
    executor, planner = make_executor([model], timeout_s=60.0), Planner(ScheduleConfig(method="serial"))
    samples, found = random_samples(8), {}
    for step in (1, 2):
        labels_BS = torch.arange(samples.tokens_BS.shape[1]) < samples.lengths_B[:, None]
        labels_BS &= torch.arange(samples.tokens_BS.shape[1]) >= samples.prompt_lengths_B[:, None]
        groups = replica_groups(model, samples.lengths_B, micro_batch=3, budget=None)
        rows = {"lengths_B": samples.lengths_B, "groups": groups, "fields": {"label_mask": labels_BS}}
        work = Work(gather_microbatches(samples.tokens_BS, **rows), loss=sft_loss(model, labels_BS))
        program = planner.program({"model": (model, work)})
        result = train_pass(executor, program, {"model": work}, models={"model": model.trained})
        found[f"{step}/loss"] = gather_report(executor, program, result).metrics["model"]["train/loss"]
        found[f"{step}/norm"] = model.trained.step().grad_norm
    return found
