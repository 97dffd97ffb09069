"""What Megatron-Core stages hold between forward and backward, measured beside what the cost model plans."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from fusedrl.models.options import PLAIN, StageOptions
from fusedrl.parallel.layout import Layout
from fusedrl.pipeline.costs import CountedCost
from fusedrl.pipeline.executor import Work
from fusedrl.pipeline.microbatch import MicroBatch
from fusedrl.pipeline.plan import Planned, plan_pass
from fusedrl.pipeline.results import gather_report
from fusedrl.pipeline.tokens import planned_shapes
from fusedrl.pipeline.training import train_pass
from tests.fusedrl.pipeline.law_jobs import ARCH, Job, policy_loss, value_loss

SIZES = {"hidden_size": 64, "head_dim": 16, "ffn_hidden_size": 192, "vocab_size": 500}


def peaks(
    *,
    layout: tuple[int, ...] = (1, 1, 1),
    arch: Mapping[str, Any] | None = None,
    names: tuple[str, ...] = ("actor", "critic"),
    shape: tuple[int, int] = (2, 48),
    options: StageOptions = PLAIN,
    dtype: str = "float32",
    lengths: tuple[int, ...] = (),
) -> tuple[list[float], list[float]]:
    """MiB of each rank: measured, planned. One micro-batch of each model more than there are stages.

    lengths: of the rows, by default whole ones.
    """
    plan, sizes = Layout(*layout), replace(ARCH, **(SIZES | dict(arch or {})))
    job = Job(plan, names=names, arch=sizes, options=options, dtype=getattr(torch, dtype))
    batches = {name: [_batch(shape, lengths) for _ in range(plan.pp + 1)] for name in names}
    total = shape[0] * shape[1]
    tokens = {name: job.executor.models[name].tokens for name in names}
    losses = {"critic": partial(value_loss, total=total, tokens=tokens["critic"])} if "critic" in names else {}
    if "actor" in names:
        tp_group = job.models["actor"].groups.tp
        losses["actor"] = partial(policy_loss, total=total, tp_group=tp_group, tokens=tokens["actor"])
    work = {name: Work(batches[name], loss=losses[name]) for name in names}
    planned = []
    for name in names:
        head = "value" if name == "critic" else "lm"
        layers = [sizes.num_layers // plan.pp] * plan.pp
        kind: dict[str, Any] = {"head": head, "bytes_each": getattr(torch, dtype).itemsize, "options": options}
        cost = CountedCost(sizes, layers, tp=plan.tp, cp=plan.cp, **kind)
        sizes_of = {"pp": plan.pp, "tp": plan.tp, "cp": plan.cp}
        planned.append(
            Planned(name, planned_shapes(tokens[name], batches[name]), **sizes_of, reverse=name == "critic", cost=cost)
        )
    program = plan_pass(planned, method="fused")
    found = gather_report(
        job.executor, program, train_pass(job.executor, program, work, models=job.models, measure_memory=True)
    ).peaks
    assert found is not None
    return [nbytes / 2**20 for nbytes in found.nbytes], list(found.planned)


def _batch(shape: tuple[int, int], lengths: tuple[int, ...]) -> MicroBatch:
    rows, length = shape
    lengths = lengths or (length,) * rows
    fields = {"lengths": torch.tensor(lengths), "targets": torch.randn(shape)}
    return MicroBatch(torch.randint(ARCH.vocab_size, shape), fields, lengths)
