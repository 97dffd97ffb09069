"""How a model's layers are shared out over its stages: evenly, or as told. No torch here.

StageLayers()                       8 layers on 4 stages: 2 2 2 2
StageLayers(first=1, last=1)        8 layers on 4 stages: 1 3 3 1       first and last stage carry the vocabulary
StageLayers(each=(1, 2, 3, 2))      as listed, stage 0 first, wherever it lies
"""

from dataclasses import dataclass

FIRST, LAST = "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"
EACH = "pipeline_layers"


@dataclass(frozen=True)
class StageLayers:
    """first, last: of the model's first and last stage, the others share the rest; each: of every stage."""

    first: int | None = None
    last: int | None = None
    each: tuple[int, ...] | None = None

    @property
    def even(self) -> bool:
        return self.first is None and self.last is None and self.each is None

    def over(self, stages: int, *, total: int) -> tuple[int, ...]:
        """Layers of each stage. Raises ValueError that begins with the key to change, without its group."""
        if self.each is not None:
            _check_each(self, stages=stages, total=total)
            return tuple(self.each)
        ends = {FIRST: self.first, LAST: self.last}
        given = {name: value for name, value in ends.items() if value is not None}
        told = " and ".join(f"{name}={value}" for name, value in given.items()) or "an even share"
        rest, others = total - sum(given.values()), stages - len(given)
        if others < 0:
            raise ValueError(f"{told} are stages of their own, there is {stages}; give one of them, or {EACH}")
        if others == 0 and rest:
            fits = "leave it null, as one stage has them all" if stages == 1 else f"make them {total} together"
            raise ValueError(f"{told} is all of {total - rest} layers, the model has {total}; {fits}")
        if others and (rest < others or rest % others):
            raise ValueError(
                f"{told} leaves {rest} of {total} layers, which the other {others} stages cannot share evenly; "
                f"leave a multiple of {others}, or give {EACH}"
            )
        middle = [rest // others] * others if others else []
        return (*_optional(self.first), *middle, *_optional(self.last))


EVEN = StageLayers()


def _optional(value: int | None) -> tuple[int, ...]:
    return () if value is None else (value,)


def _check_each(layers: StageLayers, *, stages: int, total: int) -> None:
    assert layers.each is not None
    told = f"{EACH}={list(layers.each)}"
    if layers.first is not None or layers.last is not None:
        raise ValueError(f"{told} tells all stages; leave {FIRST} and {LAST} out")
    if len(layers.each) != stages:
        raise ValueError(f"{told} has {len(layers.each)} numbers, the model has {stages} stages; give one for each")
    if min(layers.each) < 1:
        raise ValueError(f"{told} leaves a stage without a layer; give each at least 1")
    if sum(layers.each) != total:
        raise ValueError(f"{told} makes {sum(layers.each)} layers, the model has {total}; make them {total}")
