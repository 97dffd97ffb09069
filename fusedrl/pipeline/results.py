"""What a pass gave, made known to ranks that did not compute it. Each function is a collective of all ranks.

Metrics are sums: over micro-batches on a last stage, then over data-parallel replicas here. Whoever reads them divides
by counts that are sums, too. A replica's tensor-parallel ranks hold equal metrics; the first of them speaks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fusedrl.parallel.comm import all_gather_object, broadcast_object
from fusedrl.parallel.fusion import NO_COLUMN
from fusedrl.pipeline.clocks import align, host_id
from fusedrl.pipeline.copies import in_program
from fusedrl.pipeline.executor import Executor, PassResult
from fusedrl.pipeline.memory import Held, MemoryPeaks, peaks
from fusedrl.pipeline.program import Program
from fusedrl.pipeline.timeline import TimedOp, Timeline, pack_ops, replayed, unpack_ops


@dataclass(frozen=True)
class PassReport:
    """A pass as all ranks know it. Bubble ratios: as planned, replayed with measured durations, and measured.

    memory, peaks: each rank's curve of what it held and the peaks beside the plan's, where the pass measured memory.
    """

    metrics: dict[str, dict[str, float]]
    timeline: Timeline
    planned_bubble: float
    replayed_bubble: float
    measured_bubble: float
    memory: tuple[tuple[Held, ...], ...] = ()
    peaks: MemoryPeaks | None = None


def gather_report(executor: Executor, program: Program, result: PassResult) -> PassReport:
    """Metrics summed over replicas and the timeline of all ranks that hold a model of the pass."""
    rank, fusion = dist.get_rank(), executor.fusion(result.models)
    takes_part = fusion.takes_part(rank)
    mine = {
        "ops": pack_ops(in_program(result.ops, copies=fusion.copy_of[rank] if takes_part else {})),
        "memory": [held[1:] for held in result.memory],
        "host": host_id(),
        "column": fusion.column_of[rank] if takes_part else NO_COLUMN,
        "metrics": {n: each.sums() for n, each in result.models.items() if executor.models[n].speaks(rank)},
    }
    everyone: list[dict[str, Any]] = all_gather_object(mine)
    clocks = align([each["host"] for each in everyone])
    working = [place for place, each in enumerate(everyone) if each["column"] != NO_COLUMN]
    everyone = [everyone[place] for place in working]
    ops = [unpack_ops(each["ops"], offset=clocks.offsets[at]) for each, at in zip(everyone, working, strict=True)]
    columns = tuple(each["column"] for each in everyone)
    timeline = Timeline(tuple(ops), columns, clock_error=clocks.error, places=tuple(working))
    memory = tuple(_memory(row, each["memory"]) for row, each in zip(ops, everyone, strict=True))
    return PassReport(
        metrics=sum_metrics([each["metrics"] for each in everyone], names=sorted(result.models)),
        timeline=timeline,
        planned_bubble=program.planned.bubble_ratio,
        replayed_bubble=replayed(program.problem, program.order, timeline).bubble_ratio,
        measured_bubble=timeline.bubble_ratio,
        memory=memory if any(memory) else (),
        peaks=peaks(program.problem, program.order, memory, columns=timeline.columns) if any(memory) else None,
    )


def _memory(ops: Sequence[TimedOp], rows: Sequence[Sequence[int]]) -> tuple[Held, ...]:
    return tuple(Held(timed.op, *row) for timed, row in zip(ops, rows, strict=bool(rows)))


def sum_metrics(
    parts: Sequence[Mapping[str, Mapping[str, float]]], *, names: Sequence[str]
) -> dict[str, dict[str, float]]:
    """Sums by model and metric, in rank order."""
    totals: dict[str, dict[str, float]] = {name: {} for name in names}
    for part in parts:
        for name, metrics in part.items():
            for key, value in metrics.items():
                totals[name][key] = totals[name].get(key, 0.0) + value
    return totals


def spread_outputs(
    executor: Executor, result: PassResult, *, model: str, device: torch.device | None = None
) -> list[Any]:
    """A forward-only model's collected tensors, by micro-batch, on all ranks of the column that computed them.

    Collected values are tensors or flat dicts of tensors. They travel from the last stage along the pipeline.
    """
    pipeline = executor.models[model]
    ranks = pipeline.ranks(dist.get_rank())
    outputs = result.models[model].outputs
    if len(ranks) == 1:
        return [outputs[m] for m in sorted(outputs)]
    source, group = ranks[pipeline.placement[-1]], executor.mailbox.group(model)
    is_source = dist.get_rank() == source
    listed = [outputs[m] for m in sorted(outputs)] if is_source else []
    plan = broadcast_object([_describe(each) for each in listed], src=source, group=group)
    return [
        _broadcast_one(
            listed[i] if is_source else None, each, source=source, group=group, device=device or pipeline.device
        )
        for i, each in enumerate(plan)
    ]


def agree_shapes(
    shapes: Mapping[str, Sequence[tuple[float, float]] | None],
) -> dict[str, tuple[tuple[float, float], ...]]:
    """The largest shape of each micro-batch over all ranks: what a plan reckons with. None: of a model that this rank
    holds no part of.

    Raises ValueError where ranks hold different counts of a model's micro-batches: one order serves all replicas.
    """
    mine = {name: None if each is None else [list(shape) for shape in each] for name, each in shapes.items()}
    everyone = all_gather_object(mine)
    agreed = {}
    for name in shapes:
        held = [each[name] for each in everyone if each[name] is not None]
        counts = [len(each) for each in held]
        if len(set(counts)) > 1:
            raise ValueError(f"{name}: ranks hold {counts} micro-batches; every replica needs the same number")
        agreed[name] = tuple(largest_shape(same) for same in zip(*held, strict=True))
    return agreed


def largest_shape(shapes: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The largest of some (rows, length). Where few long rows stand beside many short ones, none of them: rows of one
    length that are as many tokens as the most among them and attend as often, no more than any of them has.
    """
    most = max(rows for rows, _ in shapes), max(length for _, length in shapes)
    if any(tuple(shape) == most for shape in shapes):
        return most
    tokens = max(rows * length for rows, length in shapes)
    pairs = max(rows * length * length for rows, length in shapes)
    return tokens * tokens / pairs, pairs / tokens


def _describe(output: Any) -> list[list[Any]]:
    if isinstance(output, Tensor):
        output = {"": output}
    return [[name, list(value.shape), str(value.dtype).removeprefix("torch.")] for name, value in output.items()]


def _broadcast_one(
    output: Any, described: list[list[Any]], *, source: int, group: dist.ProcessGroup, device: torch.device
) -> Any:
    values = {}
    for name, shape, dtype in described:
        if output is None:
            value = torch.empty(shape, dtype=getattr(torch, dtype), device=device)
        else:
            value = (output[name] if name else output).contiguous()
        dist.broadcast(value, source, group=group)
        values[name] = value
    return values[""] if list(values) == [""] else values
