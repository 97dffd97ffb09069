"""Actor and critic of LLaMA shapes on the same pipeline columns, in opposite directions, as a Problem in ms and GiB.

A column is `tp` devices. A model of larger tensor parallelism occupies several columns a stage; a model whose stages
do not fill all columns has copies side by side, which share the micro-batches out in turn:

    4 columns, tp 4    actor, tp 8: stages on columns [0,1] [2,3]       critic, 2 stages: copies on [1,0] and [3,2]
"""

from dataclasses import dataclass

from schedules.problem import MOST_OPS, Model, Problem, ProblemError
from schedules.transformer.attention import CORES
from schedules.transformer.device import DEVICES, Device
from schedules.transformer.lengths import microbatch_lengths
from schedules.transformer.shapes import SHAPES, Shape, check_tp
from schedules.transformer.stages import Part, split_layers

MOST_TOKENS = 2**24  # of a sample; beyond any context window, and safe to square
_MOST_SPREAD = 5.0
_KINDS, _ROLES = 3, 2  # F, B, W of actor and critic
_SIDES_COUNTS = ("actor_tp", "critic_tp", "actor_stages", "critic_stages")
_COUNTS = ("ranks", "microbatches", "tp", *_SIDES_COUNTS, "samples", "length", "longest")
Lengths = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Setup:
    """All that a fused problem is made of; the names are those of the command line.

    ranks: pipeline columns of `tp` devices. microbatches: of the whole batch, shared out among a model's copies.
    *_tp, *_stages, *_layers: None stands for the column's tp, for as many stages as fit, and for an even split.
    length, spread, longest, seed: `samples` samples a micro-batch, of log-normal length (lengths.py) or all equal.
    """

    actor: str
    critic: str
    ranks: int
    microbatches: int
    tp: int = 4
    actor_tp: int | None = None
    critic_tp: int | None = None
    actor_stages: int | None = None
    critic_stages: int | None = None
    actor_layers: tuple[int, ...] | None = None
    critic_layers: tuple[int, ...] | None = None
    samples: int = 1
    length: int = 2048
    spread: float = 0.0
    longest: int | None = None
    seed: int = 0
    device: str = "h100"
    efficiency: float | None = None
    attention: str = "flash"
    sequence_parallel: bool = True

    def __post_init__(self) -> None:
        for key, table in (("actor", SHAPES), ("critic", SHAPES), ("device", DEVICES), ("attention", CORES)):
            if getattr(self, key) not in table:
                raise ProblemError(f"{key}: {getattr(self, key)!r} is none of {', '.join(table)}")
        for key in _COUNTS:
            if getattr(self, key) is not None and getattr(self, key) < 1:
                raise ProblemError(f"{key}: expected a whole number of at least 1, got {getattr(self, key)}")
        if not 0 <= self.spread <= _MOST_SPREAD:
            raise ProblemError(f"spread: expected a number from 0 to {_MOST_SPREAD:g}, got {self.spread}")
        if self.efficiency is not None and not 0 < self.efficiency <= 1:
            raise ProblemError(f"efficiency: expected a number above 0, at most 1, got {self.efficiency}")
        if self.length > (self.longest or MOST_TOKENS):
            raise ProblemError(f"longest: {self.longest or MOST_TOKENS} is below the median length {self.length}")
        if self.ranks * self.microbatches * max(_KINDS * _ROLES, self.samples) > MOST_OPS:
            raise ProblemError(
                f"ranks {self.ranks} x microbatches {self.microbatches} (samples {self.samples}): "
                f"more than {MOST_OPS} ops or samples; take fewer"
            )


@dataclass(frozen=True)
class Side:
    """Actor or critic, resolved: its stages' costs, how many columns a stage has, and how many copies there are."""

    role: str
    part: Part
    columns: int
    copies: int

    @property
    def stages(self) -> int:
        return len(self.part.layers)

    def placement(self, copy: int) -> list[list[int]]:
        """Columns of each stage of a copy; the critic's stages run against the actor's."""
        first = copy * self.stages * self.columns
        stages = [[first + s * self.columns + c for c in range(self.columns)] for s in range(self.stages)]
        return stages if self.role == "actor" else stages[::-1]


def fused_problem(setup: Setup) -> Problem:
    """The problem: times in ms to 0.01, activations in GiB of one device to 0.001."""
    device, lengths = device_of(setup), lengths_of(setup)
    models = []
    for side in sides_of(setup):
        for copy in range(side.copies):
            name = side.role if side.copies == 1 else f"{side.role}{copy}"
            own = lengths[copy :: side.copies]
            models.append(_model(name, placement=side.placement(copy), part=side.part, lengths=own, device=device))
    return Problem(setup.ranks, tuple(models), comm=_ms(message_seconds(setup)))


def message_seconds(setup: Setup) -> float:
    """Time of the largest message of either model: a problem has one time for all messages."""
    sizes = [side.part.message_bytes(row) for side in sides_of(setup) for row in lengths_of(setup)]
    return device_of(setup).message_seconds(max(sizes))


def device_of(setup: Setup) -> Device:
    """The device, with the setup's own efficiency where it names one."""
    sheet = DEVICES[setup.device]
    efficiency = sheet.efficiency if setup.efficiency is None else setup.efficiency
    return Device(sheet.name, sheet.peak, efficiency, sheet.bandwidth, sheet.latency)


def lengths_of(setup: Setup) -> Lengths:
    """Lengths of the samples of each micro-batch."""
    longest = MOST_TOKENS if setup.longest is None else setup.longest
    return microbatch_lengths(
        setup.microbatches,
        samples=setup.samples,
        median=setup.length,
        spread=setup.spread,
        longest=longest,
        seed=setup.seed,
    )


def sides_of(setup: Setup) -> tuple[Side, Side]:
    """Actor and critic, checked against the columns."""
    return _side(setup, role="actor"), _side(setup, role="critic")


def _side(setup: Setup, *, role: str) -> Side:
    shape = SHAPES[getattr(setup, role)]
    own_tp: int | None = getattr(setup, f"{role}_tp")
    tp = own_tp or setup.tp
    check_tp(shape, tp=tp, key=f"{role}_tp" if own_tp else "tp")
    if tp % setup.tp:
        raise ProblemError(f"{role}_tp: {tp} is not a multiple of a column's {setup.tp} devices (tp)")
    columns = tp // setup.tp
    if setup.ranks % columns:
        raise ProblemError(f"ranks: {setup.ranks} columns cannot be shared out by {columns} to a stage of the {role}")
    layers = _layers(setup, shape, role=role, fitting=setup.ranks // columns)
    copies = setup.ranks // columns // len(layers)
    if setup.microbatches % copies:
        raise ProblemError(f"microbatches: {setup.microbatches} cannot be shared out among {copies} {role}s")
    part = Part(shape, layers, role == "actor", tp, setup.sequence_parallel, setup.attention)
    return Side(role, part, columns, copies)


def _layers(setup: Setup, shape: Shape, *, role: str, fitting: int) -> tuple[int, ...]:
    """Layers of each stage; `fitting` stages would fill the columns."""
    own: tuple[int, ...] | None = getattr(setup, f"{role}_layers")
    stages = getattr(setup, f"{role}_stages") or (len(own) if own else fitting)
    if fitting % stages:
        raise ProblemError(f"{role}_stages: {stages} stages do not divide the {fitting} that fill the columns")
    layers = own or split_layers(shape, stages=stages, head=role == "actor")
    if len(layers) != stages:
        raise ProblemError(f"{role}_layers: {len(layers)} numbers for {stages} stages")
    if sum(layers) != shape.layers:
        raise ProblemError(f"{role}_layers: they add up to {sum(layers)}, but {shape.name} has {shape.layers} layers")
    if min(layers) < 1:
        raise ProblemError(f"{role}_stages: {shape.layers} layers on {stages} stages leave one without; take fewer")
    return layers


def _model(name: str, *, placement: list[list[int]], part: Part, lengths: Lengths, device: Device) -> Model:
    stages = range(len(part.layers))
    times = [[part.seconds(s, row, device=device) for row in lengths] for s in stages]
    return Model(
        name,
        placement,
        len(lengths),
        forward=[[_ms(t.forward) for t in row] for row in times],
        backward=[[_ms(t.backward) for t in row] for row in times],
        backward_weight=[[_ms(t.weight_gradient) for t in row] for row in times],
        activation=[[round(part.bytes(s, row) / 2**30, 3) for row in lengths] for s in stages],
    )


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)
