"""The plan of a pass: from micro-batch shapes and layouts to a program. A pure function, the same on all ranks.

    actor, critic = Planned("actor", shapes, pp=4), Planned("critic", shapes, pp=4, reverse=True)
    program = plan_pass([actor, critic], method="fused")

The critic runs against the actor: its stage 0 lies on the last column.

    column      0         1         2         3
    actor    stage 0   stage 1   stage 2   stage 3
    critic   stage 3   stage 2   stage 1   stage 0

Layouts may differ (fusedrl.parallel.fusion): a model then has several copies on the columns of a problem, critic0 and
critic1, or stages on several columns at once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fusedrl.parallel.fusion import Fusion, Spread, fuse
from fusedrl.parallel.layout import Layout
from fusedrl.parallel.placement import place_stages
from fusedrl.pipeline.costs import ConstantCost, Cost
from fusedrl.pipeline.program import Program, make_program
from schedules.builders.greedy import greedy
from schedules.builders.interleaved import interleaved_1f1b
from schedules.builders.serial import serial_1f1b
from schedules.builders.zero_bubble import zero_bubble
from schedules.order import Order
from schedules.problem import Model, Problem

METHODS: Mapping[str, Callable[[Problem], Order]] = {
    "fused": greedy,  # all models interleaved
    "fused_split": greedy,  # and W put where it fills bubbles
    "serial": serial_1f1b,  # one model after the other, as the next ones
    "interleaved": interleaved_1f1b,
    "zero_bubble": zero_bubble,
}
SPLITTING = ("fused_split", "zero_bubble")

Shapes = tuple[tuple[float, float], ...]
"""(rows, padded length) of each micro-batch, or what stands for them (TokenForm.planned); over data-parallel replicas
the largest (results.agree_shapes)."""


@dataclass(frozen=True)
class Planned:
    """One model's part of a pass. shape: how its stages lie on the columns (fusedrl.parallel.placement).
    ranks: of the job, where its layout lies; None: on the first ones."""

    name: str
    shapes: Shapes
    pp: int = 1
    tp: int = 1
    dp: int = 1
    cp: int = 1
    reverse: bool = False
    shape: str = "line"
    trains: bool = True
    cost: Cost = field(default_factory=ConstantCost)
    ranks: tuple[int, ...] | None = None

    @property
    def layout(self) -> Layout:
        return Layout(tp=self.tp, pp=self.pp, dp=self.dp, cp=self.cp)

    def placement(self) -> tuple[int, ...]:
        """The stages on the model's own pipeline columns."""
        return place_stages(self.pp, shape=self.shape, reverse=self.reverse)


def plan_pass(
    models: Sequence[Planned], *, method: str = "fused", memory_cap: float | None = None, comm: float = 0.0
) -> Program:
    """method: one of METHODS, or file:PATH.

    Raises ValueError for an unknown method or one that does not suit the work, OrderError for a file that does not fit
    the work.
    """
    problem = make_problem(models, memory_cap=memory_cap, comm=comm, split=may_split(method))
    return make_program(problem, order_by(problem, method))


def make_problem(
    models: Sequence[Planned], *, memory_cap: float | None = None, comm: float = 0.0, split: bool = False
) -> Problem:
    """The work of a pass as a scheduling problem over the columns of a group. split: orders may split backwards."""
    fusion = fusion_of(models)
    parts = {each.name: _model(each, split=split) for each in models}
    copies = tuple(replace(parts[copy.model], name=copy.name, placement=copy.placement) for copy in fusion.copies)
    return Problem(ranks=fusion.columns, models=copies, comm=comm, memory_cap=memory_cap)


def may_split(method: str) -> bool:
    """Whether the orders of a method may hold W ops."""
    return method in SPLITTING or method.startswith("file:")


def without_training(method: str) -> str:
    """The method for a pass that runs forwards alone, where a method is made for training."""
    if method in ("interleaved", "zero_bubble"):
        return "serial"
    return method if method in METHODS and method not in SPLITTING else "fused"


def fusion_of(models: Sequence[Planned]) -> Fusion:
    """How the models of a pass lie together on the ranks."""
    return fuse({model.name: Spread.of(model.layout, model.placement(), ranks=model.ranks) for model in models})


def order_by(problem: Problem, method: str) -> Order:
    """The order that a schedule method makes for a problem."""
    if method in METHODS:
        return METHODS[method](problem)
    if method.startswith("file:"):
        return read_order(Path(method.removeprefix("file:")), problem)
    raise ValueError(f"schedule.method={method}: must be {', '.join(METHODS)} or file:PATH")


def read_order(path: Path, problem: Problem) -> Order:
    """An order made for the same ranks, stages and micro-batch counts; durations may differ, as they do every step.

    That is why the digest of a CSV is not compared here: the program's check tells whether the order fits the work.
    """
    if not path.is_file():
        raise ValueError(f"schedule.method=file:{path}: there is no such file")
    try:
        text = path.read_text()
    except UnicodeDecodeError as error:
        raise ValueError(f"schedule.method=file:{path}: not text, and so no order ({error.reason})") from error
    if path.suffix == ".csv":
        rows = [line for line in text.splitlines() if line and not line.startswith("#")]
        text = "".join(" ".join(row.split(",")[1:]) + "\n" for row in rows)
    return Order.from_text(text, problem)


def _model(planned: Planned, *, split: bool) -> Model:
    stages = len(planned.placement())

    def matrix(quantity: str) -> list[list[float]]:
        count = getattr(planned.cost, quantity)
        return [[count(s, rows=rows, length=length) for rows, length in planned.shapes] for s in range(stages)]

    if not planned.shapes:
        raise ValueError(f"{planned.name}: no micro-batches to plan")
    return Model(
        name=planned.name,
        placement=planned.placement(),
        microbatches=len(planned.shapes),
        forward=matrix("forward"),
        backward=matrix("backward") if planned.trains else None,
        backward_weight=matrix("weight") if planned.trains and split else None,
        activation=matrix("activation"),
    )
