"""Weights from one layout to another: training (tp, pp, dp, reversed pipeline or not) to generation, in place.

    describe  each rank says which spans of which parameter it holds         (once)
    plan      reshard.plan, the same pure function on every rank             (once)
    run       per round and peer one packed message, then copies into place  (every step)

No rank ever holds more of the model than it serves, plus one round's buffers. The reasons for not calling
`megatron.core.resharding` are in docs/rollout.md.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from fusedrl.models.parameter_gather import settle
from fusedrl.parallel.comm import all_gather_object
from fusedrl.parallel.team import current, whole
from fusedrl.rollout.exchange import Exchange, Traffic
from fusedrl.rollout.reshard import Shard, Span, plan, rounds

BUCKET_BYTES = 256 << 20


@dataclass(frozen=True)
class HandOverReport:
    """What one hand-over did on this rank."""

    bytes_sent: int
    bytes_received: int
    bytes_copied: int  # from this rank to itself
    messages: int
    seconds: float


class HandOver:
    """The hand-over of one pair of models. Making it and `run` are collectives of the team that is current while it is
    made.

    `source` or `target` is None on a rank that holds no part of it.
    """

    def __init__(self, source: nn.Module | None, target: nn.Module | None, *, bucket_bytes: int = BUCKET_BYTES) -> None:
        pieces = plan(gather_shards(describe(source)), gather_shards(describe(target)))
        self._exchange = Exchange(_parameters(source), _parameters(target))
        self._rounds = rounds(pieces, bucket_bytes=bucket_bytes)

    def run(self) -> HandOverReport:
        """Copy the source's present parameters into the target's."""
        start, traffic = perf_counter(), Traffic()
        for pieces in self._rounds:
            traffic += self._exchange.run(pieces)
        return HandOverReport(**asdict(traffic), seconds=perf_counter() - start)


_cache: "WeakKeyDictionary[nn.Module, WeakKeyDictionary[nn.Module, HandOver]]" = WeakKeyDictionary()


def hand_over(source: nn.Module, target: nn.Module) -> HandOverReport:
    """Copy `source`'s weights into `target`, by a plan kept for this pair; a collective of all ranks."""
    settle(source)
    plans = _cache.setdefault(target, WeakKeyDictionary())
    if source not in plans:
        plans[source] = HandOver(source, target)
    return plans[source].run()


def _parameters(model: nn.Module | None) -> dict[str, Tensor]:
    return {} if model is None else dict(model.named_parameters())


def describe(model: nn.Module | None) -> list[Shard]:
    """The shards that this rank holds of a Megatron model: of its one stage, or of all in a ModuleList."""
    if model is None:
        return []
    stages = list(model.named_children()) if isinstance(model, nn.ModuleList) else [("", model)]
    return [
        _shard(name, parameter, model=stage, tp=stage.pg_collection.tp, prefix=f"{number}." if number else "")
        for number, stage in stages
        for name, parameter in stage.named_parameters()
    ]


def _shard(name: str, parameter: nn.Parameter, *, model: Any, tp: Any, prefix: str) -> Shard:
    # the mark is there with tp 1 too: both layouts must name the same dimension
    sharded = bool(getattr(parameter, "tensor_model_parallel", False))
    dim = int(parameter.partition_dim) if sharded else 0
    blocks = 2 if sharded and model.config.gated_linear_unit and ".linear_fc1." in name else 1
    return Shard(
        name=_whole_model_name(name, model),
        local_name=prefix + name,
        shape=tuple(parameter.shape),
        dim=dim,
        spans=_spans(
            parameter.shape[dim],
            blocks=blocks,
            tp_size=tp.size() if sharded else 1,
            tp_rank=tp.rank() if sharded else 0,
        ),
        dtype=str(parameter.dtype).removeprefix("torch."),
    )


def _spans(length: int, *, blocks: int, tp_size: int, tp_rank: int) -> tuple[Span, ...]:
    """A gated fc1 is `blocks` = 2 stacked matrices, each cut by itself: a part of the gate, then a part of the up."""
    part = length // blocks
    return tuple(
        Span(start=part * (block * tp_size + tp_rank), offset=part * block, length=part) for block in range(blocks)
    )


def _whole_model_name(name: str, model: Any) -> str:
    """Layers are named by their place in the whole model, whichever stage holds them."""
    prefix = "decoder.layers."
    if not name.startswith(prefix):
        return name
    index, _, rest = name.removeprefix(prefix).partition(".")
    return f"{prefix}{model.decoder.layers[int(index)].layer_number - 1}.{rest}"


def gather_shards(shards: list[Shard]) -> list[list[Shard]]:
    """What each rank of the job describes; nothing of those outside the current team, whose collective it is."""
    found: list[list[Shard]] = [[] for _ in whole().ranks]
    gathered = all_gather_object([asdict(shard) for shard in shards])
    for rank, of_rank in zip(current().ranks, gathered, strict=True):
        found[rank] = [_from_plain(plain) for plain in of_rank]
    return found


def _from_plain(plain: Mapping[str, Any]) -> Shard:
    spans = tuple(Span(**span) for span in plain["spans"])
    return Shard(**{**plain, "shape": tuple(plain["shape"]), "spans": spans})
