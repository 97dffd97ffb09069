"""A problem: the pipeline work of several models that share ranks, and the limits it must keep.

A rank here is a pipeline column: with tensor and data parallelism each column is a set of real ranks that all run the
same list. One unit of time and one of memory are used throughout.

    F(s, m) waits for F(s-1, m);  B(s, m) waits for B(s+1, m) and F(s, m);  W(s, m) waits for B(s, m)

`comm` passes between the end of an op and the use of its message on another rank.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from schedules.forms import Form, compact, entry, number, plain, shown

Kind = Literal["F", "B", "W"]
Placement = Sequence[int | Sequence[int]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
MOST_RANKS = 4096
MOST_OPS = 5_000_000  # counted on every rank; beyond that builders would take minutes and memory without end
_CAP_SLACK = 1e-9  # relative: eight activations of 1.95 must fit a cap of 15.6 in floating point


class ProblemError(ValueError):
    """A problem that cannot be posed; the message is one line and names the place."""


@dataclass(frozen=True)
class Model:
    """One model: where its stages lie and what each costs. `backward=None` makes it forward-only.

    placement: rank of each stage, or the tuple of ranks that a stage occupies at once.
    backward: the whole backward. backward_weight: the part of it that an order may split off as W.
    activation: held from F's start to B's end (to W's end where split; to F's end in a forward-only model).
    """

    name: str
    placement: Placement
    microbatches: int
    forward: Form
    backward: Form | None = None
    backward_weight: Form | None = None
    activation: Form = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            name = shown(self.name)
            raise ProblemError(f"models: name {name} must be up to 64 letters, digits, '_', '.', '-', a letter first")
        _count(self.microbatches, place=f"{self.name}.microbatches")
        object.__setattr__(self, "placement", _placement(self.placement, place=f"{self.name}.placement"))
        _check_size(self.ops, place=self.name)
        for key in ("forward", "backward", "backward_weight", "activation"):
            value = getattr(self, key)
            if value is not None or key in ("forward", "activation"):
                object.__setattr__(self, key, self._compact(key, value))
        self._check_weight_part()

    @property
    def stages(self) -> int:
        return len(self.placement)

    @property
    def trains(self) -> bool:
        """Whether the model has a backward."""
        return self.backward is not None

    @property
    def ops(self) -> int:
        """The most ops that an order holds of it, counted on every rank."""
        kinds = sum(form is not None for form in (self.forward, self.backward, self.backward_weight))
        return kinds * self.microbatches * sum(len(self.ranks_of(s)) for s in range(self.stages))

    def ranks_of(self, stage: int) -> tuple[int, ...]:
        """The ranks that a stage occupies, most often one."""
        ranks = self.placement[stage]
        return (ranks,) if isinstance(ranks, int) else tuple(ranks)

    def stages_on(self, rank: int) -> tuple[int, ...]:
        """The stages that a rank holds, in increasing order."""
        return self._stages_by_rank.get(rank, ())

    @cached_property
    def _stages_by_rank(self) -> dict[int, tuple[int, ...]]:
        stages: dict[int, list[int]] = {}
        for s in range(self.stages):
            for rank in self.ranks_of(s):
                stages.setdefault(rank, []).append(s)
        return {rank: tuple(own) for rank, own in stages.items()}

    def duration(self, kind: Kind, stage: int, microbatch: int, *, split: bool = False) -> float:
        """Time of one op. `split`: the backward's weight part runs as an op W of its own."""
        if kind == "F":
            return entry(self.forward, stage, microbatch)
        weight = entry(self.backward_weight or 0.0, stage, microbatch)
        if kind == "W":
            return weight
        whole = entry(self.backward or 0.0, stage, microbatch)
        return whole - weight if split else whole

    def activation_of(self, stage: int, microbatch: int) -> float:
        """Memory that one micro-batch holds on each rank of a stage."""
        return entry(self.activation, stage, microbatch)

    def to_dict(self) -> dict[str, object]:
        """The model as a problem file writes it."""
        ranks = [own[0] if len(own := self.ranks_of(s)) == 1 else list(own) for s in range(self.stages)]
        out: dict[str, object] = {"name": self.name, "placement": ranks, "microbatches": self.microbatches}
        quantities = {"forward": self.forward, "backward": self.backward, "backward_weight": self.backward_weight}
        out |= {key: plain(form) for key, form in quantities.items() if form is not None}
        return out | {"activation": plain(self.activation)}

    def _compact(self, key: str, value: object) -> Form:
        try:
            return compact(value, stages=self.stages, microbatches=self.microbatches, place=f"{self.name}.{key}")
        except ValueError as error:
            raise ProblemError(str(error)) from None

    def _check_weight_part(self) -> None:
        if self.backward_weight is None:
            return
        if self.backward is None:
            raise ProblemError(f"{self.name}.backward_weight: there is no backward to split; add backward or drop it")
        for s in range(self.stages):
            for m in range(self.microbatches):
                whole, weight = entry(self.backward, s, m), entry(self.backward_weight, s, m)
                if weight > whole:
                    place = f"{self.name}.backward_weight: stage {s}, micro-batch {m}"
                    raise ProblemError(f"{place}: {weight:g} exceeds backward {whole:g}")


@dataclass(frozen=True)
class Problem:
    """All work on a set of ranks. Model names are unique; `memory_cap` is per rank and hard."""

    ranks: int
    models: tuple[Model, ...]
    comm: float = 0.0
    memory_cap: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", tuple(self.models))
        _count(self.ranks, place="ranks")
        if self.ranks > MOST_RANKS:
            raise ProblemError(f"ranks: {shown(self.ranks)} is more than {MOST_RANKS} pipeline columns")
        if not self.models:
            raise ProblemError("models: at least one model is needed")
        _check_size(sum(model.ops for model in self.models), place="models")
        for key in ("comm", "memory_cap"):
            if getattr(self, key) is not None or key == "comm":
                object.__setattr__(self, key, _limit(getattr(self, key), place=key))
        self._check_models()

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> "Problem":
        """A problem from parsed YAML; every error is one line that names the key."""
        from schedules.problem_file import problem_from_dict

        return problem_from_dict(data)

    @classmethod
    def load(cls, path: str | Path) -> "Problem":
        """A problem from a YAML file."""
        from schedules.problem_file import load_problem

        return load_problem(path)

    def to_dict(self) -> dict[str, object]:
        """The problem as a problem file writes it."""
        out: dict[str, object] = {"ranks": self.ranks, "comm": plain(self.comm)}
        if self.memory_cap is not None:
            out["memory_cap"] = plain(self.memory_cap)
        return out | {"models": [model.to_dict() for model in self.models]}

    @property
    def digest(self) -> str:
        """16 hex digits that name the work; the memory cap, a limit on orders, is no part of it."""
        work = {key: value for key, value in self.to_dict().items() if key != "memory_cap"}
        return hashlib.sha256(json.dumps(work, sort_keys=True).encode()).hexdigest()[:16]

    def model(self, name: str) -> Model:
        """The model of that name."""
        for model in self.models:
            if model.name == name:
                return model
        raise ProblemError(f"models: no model named {name!r}; there are {', '.join(m.name for m in self.models)}")

    def with_cap(self, cap: float | None) -> "Problem":
        """The same work under another memory cap."""
        return replace(self, memory_cap=cap)

    def fits(self, memory: float) -> bool:
        """Whether a rank may hold that much memory."""
        return memory <= self.room

    @property
    def room(self) -> float:
        """The memory of a rank, with a hair's breadth for sums in floating point; infinite without a cap."""
        return float("inf") if self.memory_cap is None else self.memory_cap * (1 + _CAP_SLACK)

    def least_memory(self, rank: int) -> float:
        """What any order needs on a rank: one micro-batch's activations of all the stages of a model there."""
        return max((_largest_microbatch(model, rank) for model in self.models), default=0.0)

    def _check_models(self) -> None:
        names = [model.name for model in self.models]
        for name in names:
            if names.count(name) > 1:
                raise ProblemError(f"models: the name {name!r} is used {names.count(name)} times")
        for model in self.models:
            for s in range(model.stages):
                for rank in model.ranks_of(s):
                    if not 0 <= rank < self.ranks:
                        raise ProblemError(
                            f"{model.name}.placement[{s}]: rank {shown(rank)} is outside 0..{self.ranks - 1}"
                        )
        for rank in range(self.ranks):
            if not self.fits(self.least_memory(rank)):
                raise ProblemError(
                    f"memory_cap: {self.memory_cap:g} is below {self.least_memory(rank):g}, "
                    f"the activations of one micro-batch on rank {rank}"
                )


def _largest_microbatch(model: Model, rank: int) -> float:
    stages = model.stages_on(rank)
    if not stages:
        return 0.0
    # A forward-only stage frees its activation at once, so its stages on a rank never add up.
    total = sum if model.trains else max
    return max(total(model.activation_of(s, m) for s in stages) for m in range(model.microbatches))


def _count(value: object, *, place: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ProblemError(f"{place}: expected a whole number of at least 1, got {shown(value)}")


def _check_size(ops: int, *, place: str) -> None:
    if ops > MOST_OPS:
        raise ProblemError(
            f"{place}: {shown(ops)} ops (kinds x stages x micro-batches), more than {MOST_OPS}; "
            "pose it with fewer micro-batches"
        )


def _placement(value: object, *, place: str) -> tuple[int | tuple[int, ...], ...]:
    if not isinstance(value, (list, tuple)) or not value:
        raise ProblemError(f"{place}: expected a list with the rank of each stage, got {shown(value)}")
    return tuple(_stage_ranks(item, place=f"{place}[{s}]") for s, item in enumerate(value))


def _stage_ranks(item: object, *, place: str) -> int | tuple[int, ...]:
    ranks: list[int] = []
    for rank in item if isinstance(item, (list, tuple)) else [item]:
        if isinstance(rank, bool) or not isinstance(rank, int):
            raise ProblemError(f"{place}: expected a rank or a list of ranks, got {shown(item)}")
        ranks.append(rank)
    if not ranks:
        raise ProblemError(f"{place}: the stage has no rank")
    if len(set(ranks)) != len(ranks):
        raise ProblemError(f"{place}: a rank is named twice in {shown(ranks)}")
    return ranks[0] if len(ranks) == 1 else tuple(ranks)


def _limit(value: object, *, place: str) -> float:
    try:
        return number(value, place)
    except ValueError as error:
        raise ProblemError(str(error)) from None
