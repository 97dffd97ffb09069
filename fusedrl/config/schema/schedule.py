"""How actor and critic micro-batches are ordered on the pipeline ranks."""

from dataclasses import dataclass

from fusedrl.config.schema.fields import group, key
from fusedrl.parallel.placement import SHAPES

SOLVERS = ("tabu", "auto", "greedy")  # those of schedules.solve that start from an order, and greedy's alone
METHODS = ("fused", "fused_split", "serial", "interleaved", "zero_bubble")  # fusedrl.pipeline.plan makes their orders


@dataclass(frozen=True)
class CostConfig:
    """Planned costs of one micro-batch on one stage, where schedule.costs=constant."""

    forward: float = key(1.0, help="Duration of a forward, in any one unit of time", above=0)
    backward: float = key(2.0, help="Duration of a backward", above=0)
    backward_weight: float | None = key(
        None, help="The part of the backward that may be put off as W; null: half of it", above=0
    )
    activation: float = key(1.0, help="Memory held from a forward to its backward, in memory_cap's unit", at_least=0)


@dataclass(frozen=True)
class ScheduleConfig:
    method: str = key(
        "fused",
        help="fused: both models interleaved; fused_split: with split backwards, too; serial (1F1B), interleaved, "
        "zero_bubble (split): one model after the other; file:PATH: a saved order",
    )
    placement: str = key(
        "line",
        help="Stages of actor and critic on the pipeline ranks. line: one each; v, interleaved: two each, "
        "as 0 1 1 0 or 0 1 0 1; they divide the layers",
        choices=SHAPES,
    )
    costs: str = key(
        "counted",
        help="What plans reckon with: GFLOP and MiB counted from the models, or the constants below",
        choices=("counted", "constant"),
    )
    profile: bool = key(
        True, help="Durations measured in this run take the place of counted GFLOP, in ms, after some training passes"
    )
    solver: str = key(
        "tabu",
        help="Search for fused and fused_split orders better than greedy's, on rank 0 while rewards and inference run; "
        "auto: tabu, then CP-SAT",
        choices=SOLVERS,
    )
    time_budget: float = key(
        0.5, help="Seconds that the searches of a step may take together; 0: greedy's orders", at_least=0, at_most=3600
    )
    memory_cap: float | None = key(
        None, help="Most activation memory of a rank, in MiB (counted) or the constants' unit; null: no limit", above=0
    )
    memory_share: float | None = key(
        None,
        help="The cap as a share of the GPU memory that is free before an update; null: memory_cap",
        above=0,
        at_most=1,
    )
    comm: float = key(
        0.0,
        help="Planned time of a message between two ranks, in the costs' unit; measured, too, with a profile",
        at_least=0,
    )
    actor: CostConfig = group(CostConfig, help="The actor's constants")
    critic: CostConfig = group(CostConfig, help="The critic's constants")
