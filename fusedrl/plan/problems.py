"""From costs, analytic or measured, to a schedules Problem: models trained on the same pipeline columns.

Times are ms, memory is GiB of one device, as in `python -m schedules problem`. A column stands for tp x cp x dp ranks
that run the same list; each replica's micro-batches are those given. `comm` is the largest message of any model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fusedrl.parallel.layout import Layout
from fusedrl.parallel.placement import place_stages
from fusedrl.plan.cluster import GIB
from fusedrl.plan.costs import Costs, Passes, message_bytes
from fusedrl.plan.memory import BYTES, Attention, Stage, activations, stages_of
from fusedrl.plan.sizes import ModelSizes
from schedules.problem import Model, Problem, ProblemError


@dataclass(frozen=True)
class Trained:
    """A model of a pass. microbatches: (tokens, mean length weighted by tokens) of each, of one replica.

    layers: of each stage; None shares them out evenly. reverse: stage 0 lies on the last column.
    """

    name: str
    model: ModelSizes
    layout: Layout
    microbatches: Sequence[tuple[float, float]]
    reverse: bool = False
    layers: Sequence[int] | None = None


def training_problem(
    costs: Costs, trained: Sequence[Trained], *, attention: Attention = "flash", memory_cap: float | None = None
) -> Problem:
    """The Problem of a pass. memory_cap: GiB of activations a rank. All models have as many stages."""
    columns = {each.layout.pp for each in trained}
    if len(columns) != 1:
        told = ", ".join(f"{each.name} {each.layout.pp}" for each in trained)
        raise ProblemError(f"pipeline sizes differ ({told}); models of a fused pass share all columns")
    models = tuple(_model(costs, each, attention) for each in trained)
    return Problem(columns.pop(), models, comm=_ms(_message(costs, trained)), memory_cap=memory_cap)


def stage_passes(
    costs: Costs, model: ModelSizes, stage: Stage, layout: Layout, *, tokens: float, length: float
) -> Passes:
    """Seconds of a stage on one micro-batch."""
    where = {"tp": layout.tp, "cp": layout.cp}
    total = costs.layer(model, tokens=tokens, length=length, **where) * len(stage.layers)
    if stage.first:
        total += costs.embedding(model, tokens=tokens, **where)
    if stage.last:
        total += costs.head(model, tokens=tokens, **where)
    return total


def _model(costs: Costs, side: Trained, attention: Attention) -> Model:
    stages = stages_of(side.model, side.layout, layers=side.layers)
    passes = [
        [
            stage_passes(costs, side.model, stage, side.layout, tokens=tokens, length=length)
            for tokens, length in side.microbatches
        ]
        for stage in stages
    ]
    held = [
        [
            activations(
                side.model, stage, side.layout, tokens=tokens, length=length, dtype=costs.dtype, attention=attention
            )
            for tokens, length in side.microbatches
        ]
        for stage in stages
    ]
    return Model(
        side.name,
        place_stages(side.layout.pp, reverse=side.reverse),
        len(side.microbatches),
        forward=[[_ms(each.forward) for each in row] for row in passes],
        backward=[[_ms(each.backward) for each in row] for row in passes],
        backward_weight=[[_ms(each.weight_gradient) for each in row] for row in passes],
        activation=[[round(each / GIB, 9) for each in row] for row in held],
    )


def _message(costs: Costs, trained: Sequence[Trained]) -> float:
    """Neighbouring columns are on different nodes where they do not all fit on one."""
    if trained[0].layout.pp == 1:
        return 0.0
    across = costs.cluster.nodes_of(max(each.layout.world for each in trained)) > 1
    each = BYTES[costs.dtype]
    sizes = [
        message_bytes(side.model, tokens=tokens, bytes_each=each, tp=side.layout.tp, cp=side.layout.cp)
        for side in trained
        for tokens, _ in side.microbatches
    ]
    return costs.message(max(sizes), across_nodes=across)


def _ms(seconds: float) -> float:
    return round(1e3 * seconds, 6)
