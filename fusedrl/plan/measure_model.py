"""All tables of one model at one tensor parallel size: builds a few of its layers, measures, lets them go."""

import gc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

from fusedrl.models.build import Head, build_model
from fusedrl.models.options import StageOptions
from fusedrl.models.training import OptimizerSettings, TrainableModel
from fusedrl.parallel.groups import ProcessGroupCollection, build_groups
from fusedrl.parallel.layout import Layout
from fusedrl.plan.grid import Point
from fusedrl.plan.measure_generation import GenerationBench
from fusedrl.plan.measure_training import TrainingBench
from fusedrl.plan.profile_file import Points, Table, make_table
from fusedrl.plan.sizes import ModelSizes

HEADS: tuple[Head, ...] = ("lm", "value")


def measured_model(
    model: ModelSizes,
    *,
    tp: int,
    tokens: Sequence[int],
    lengths: Sequence[int],
    rows: Sequence[int],
    contexts: Sequence[int],
    layers: int,
    repeats: int,
    dtype: str,
    sequence_parallel: bool = False,
) -> Iterator[Table]:
    """Training parts with both heads, Adam's step, then generation. A collective of the world."""
    layout = Layout(tp=tp, dp=dist.get_world_size() // tp)
    groups, sp = build_groups(layout), sequence_parallel or model.arch.experts is not None
    made: dict[str, Any] = {"layers": layers, "dtype": getattr(torch, dtype)}
    made["options"] = StageOptions(sequence_parallel=sp)
    where = {"model": model.name, "tp": tp}
    grid = [(count, length) for count in tokens for length in lengths]
    for head in HEADS:
        trained = _trained(model, groups, head=head, **made)
        bench = TrainingBench(trained, layout=layout, repeats=repeats)
        found = {at: bench.passes(rows=at[0] // at[1], length=at[1]) for at in grid}
        yield make_table(f"head_{head}", _by_tokens(found, "head", length=lengths[0]), **where)
        if head == "lm":
            yield make_table("layer", {_point(at): parts["layer"] for at, parts in found.items()}, **where)
            yield make_table("embedding", _by_tokens(found, "embedding", length=lengths[0]), **where)
            at = grid[-1]
            whole: Points = {_point(at): bench.whole(rows=at[0] // at[1], length=at[1])}
            yield make_table("whole", whole, **where, layers=layers)
            held = sum(each.numel() for each in trained.module.parameters())
            yield make_table("optimizer_step", {(float(held),): [bench.step()]})
            yield from _generation(trained, grid=grid, rows=rows, contexts=contexts, repeats=repeats, where=where)
        del trained, bench
        gc.collect()


def _generation(
    trained: TrainableModel,
    *,
    grid: Sequence[tuple[int, int]],
    rows: Sequence[int],
    contexts: Sequence[int],
    repeats: int,
    where: dict[str, Any],
) -> Iterator[Table]:
    longest = max(*contexts, *(length for _, length in grid)) + 1
    bench = GenerationBench(trained.stages[0], max_length=longest, repeats=repeats)
    prefill: Points = {_point(at): [bench.prefill(rows=at[0] // at[1], length=at[1])] for at in grid}
    yield make_table("prefill", prefill, **where)
    steps = {(count, context): bench.decode(rows=count, context=context) for count in rows for context in contexts}
    yield make_table("decode", {_point(at): [layer] for at, (layer, _) in steps.items()}, **where)
    ends: Points = {(float(count),): [steps[count, contexts[0]][1]] for count in rows}
    yield make_table("decode_ends", ends, **where)


def _trained(
    model: ModelSizes,
    groups: ProcessGroupCollection,
    *,
    head: Head,
    layers: int,
    dtype: torch.dtype,
    options: StageOptions,
) -> TrainableModel:
    """A few layers with what trains them; of a model with experts those that have some."""
    experts = model.arch.experts
    arch = replace(model.arch, num_layers=layers, experts=experts and replace(experts, dense_layers=()))
    module = build_model(arch, groups, head=head, dtype=dtype, options=options, delay_weight_gradients=True)
    return TrainableModel(module, groups=groups, settings=OptimizerSettings(), name=model.name)


def _point(sizes: Sequence[int]) -> Point:
    return tuple(float(size) for size in sizes)


def _by_tokens(found: dict[tuple[int, int], dict[str, tuple[float, ...]]], part: str, *, length: int) -> Points:
    """Of a part that does not look at lengths: the measurement at one of them."""
    return {(float(at[0]),): parts[part] for at, parts in found.items() if at[1] == length}
