"""What may be chosen about a model's stages beyond its layout; none of it changes what is computed. No torch here.

recompute   selective   scores and weights of attention are computed again in the backward, not kept
            full        only inputs of whole layers are kept, the rest is computed again
"""

from dataclasses import dataclass
from typing import Literal

from fusedrl.models.stage_layers import EVEN, StageLayers

Granularity = Literal["selective", "full"]
Method = Literal["uniform", "block"]


@dataclass(frozen=True)
class Recompute:
    """Which activations a backward computes again; names follow Megatron's and verl's `recompute_*`.

    method and num_layers count with full only. uniform: the input of every num_layers layers is kept; block: the first
    num_layers layers of each stage keep their inputs alone, the others keep everything.
    """

    granularity: Granularity
    method: Method = "uniform"
    num_layers: int = 1

    def __post_init__(self) -> None:
        if self.granularity not in ("selective", "full") or self.method not in ("uniform", "block"):
            raise ValueError(
                f"recompute_granularity={self.granularity!r}, recompute_method={self.method!r}: "
                "must be selective or full, uniform or block"
            )
        if self.num_layers < 1:
            raise ValueError(f"recompute_num_layers={self.num_layers} must be at least 1")

    def kept_layers(self, layers: int) -> tuple[int, int]:
        """Of a stage's layers: (inputs kept of layers that are computed again, layers that keep everything)."""
        if self.granularity == "selective":
            return 0, layers
        if self.method == "uniform":
            return -(-layers // self.num_layers), 0
        return min(self.num_layers, layers), max(0, layers - self.num_layers)

    def misfit(self, layers: int) -> str | None:
        """What is wrong with a stage of so many layers: Megatron-Core takes whole units only."""
        if self.granularity == "selective" or self.method == "block" or layers % self.num_layers == 0:
            return None
        return (
            f"recompute_num_layers={self.num_layers} does not divide the {layers} layers of a stage; "
            "choose a divisor, or recompute_method=block"
        )

    def layers_again(self, layers: int) -> int:
        """Whole layers of a stage that a backward computes a second time."""
        return layers - self.kept_layers(layers)[1]


@dataclass(frozen=True)
class StageOptions:
    """How a model's stages are built.

    sequence_parallel: tensor-parallel ranks share the tokens where they do not share the heads; without effect at tp 1.
    packed: the rows of a micro-batch lie end to end, without padding.
    """

    recompute: Recompute | None = None
    layers: StageLayers = EVEN
    sequence_parallel: bool = False
    packed: bool = False


PLAIN = StageOptions()
