"""Costs from a profile of the machine at hand (grid.py: between and beyond what was measured).

Where a profile does not tell, the cluster's sheets do: links that the profiled job did not have, copies to the host.
`beyond` says of which questions an answer was no measurement between measurements. A model's layers must have been
measured, in the tensor parallel size asked for; another number of layers of the same sizes is the same model here.
Of a model with experts a layer that has some is measured, and taken for all of them.
Context parallelism is composed: a rank's share of the tokens, attending to the whole length, and the collectives.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fusedrl.models.architecture import Architecture
from fusedrl.plan.analytic import AnalyticCosts
from fusedrl.plan.cluster import Cluster
from fusedrl.plan.costs import Collective, Passes
from fusedrl.plan.memory import BYTES
from fusedrl.plan.profile_file import Profile, Table
from fusedrl.plan.sizes import ModelSizes

_LAYER_SIZES = (
    "hidden_size",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "ffn_hidden_size",
    "vocab_size",
    "qkv_bias",
    "qk_norm",
)


@dataclass(frozen=True)
class MeasuredCosts:
    """Costs by measurement; implements `fusedrl.plan.costs.Costs`."""

    profile: Profile
    cluster: Cluster
    _beyond: set[str] = field(default_factory=set, compare=False, repr=False)
    _found: dict[tuple[ModelSizes, str, int], Table] = field(default_factory=dict, compare=False, repr=False)

    @property
    def dtype(self) -> str:
        return self.profile.dtype

    @property
    def beyond(self) -> tuple[str, ...]:
        """What was asked beyond the measured sizes, or answered by the cluster's sheets; a line each."""
        return tuple(sorted(self._beyond))

    def widths(self, model: ModelSizes) -> tuple[int, ...]:
        name = self._name(model)
        found = {int(each.get("tp")) for each in self.profile.of("layer") if each.get("model") == name}
        return tuple(sorted(tp for tp in found if tp <= self.cluster.devices))

    def layer(self, model: ModelSizes, *, tp: int, tokens: float, length: float, cp: int = 1) -> Passes:
        passes = self._passes(model, "layer", tp, tokens / cp, length)
        shared = 2 * model.arch.num_kv_heads * model.arch.head_dim * tokens * BYTES[self.dtype] / tp
        nodes = self.cluster.nodes_of(cp, stride=tp)
        gathered = self.collective("all_gather", shared, ranks=cp, nodes=nodes)
        scattered = self.collective("reduce_scatter", shared, ranks=cp, nodes=nodes)
        return passes + Passes(gathered, scattered)

    def embedding(self, model: ModelSizes, *, tp: int, tokens: float, cp: int = 1) -> Passes:
        return self._passes(model, "embedding", tp, tokens / cp)

    def head(self, model: ModelSizes, *, tp: int, tokens: float, cp: int = 1) -> Passes:
        return self._passes(model, f"head_{model.head}", tp, tokens / cp)

    def prefill(self, model: ModelSizes, *, tp: int, tokens: float, length: float) -> float:
        return self._of_model(model, "prefill", tp, tokens, length)[0]

    def decode(self, model: ModelSizes, *, tp: int, rows: float, context: float) -> float:
        return self._of_model(model, "decode", tp, rows, context)[0]

    def decode_ends(self, model: ModelSizes, *, tp: int, rows: float) -> float:
        return self._of_model(model, "decode_ends", tp, rows)[0]

    def message(self, nbytes: float, *, across_nodes: bool) -> float:
        table = self.profile.find("message", across_nodes=across_nodes)
        if table is None:
            where = "between nodes" if across_nodes else "inside a node"
            self._note(f"messages {where}: by the sheet of {self.cluster.name}")
            return self._sheets.message(nbytes, across_nodes=across_nodes)
        return self._ask(table, nbytes)[0]

    def collective(self, kind: Collective, nbytes: float, *, ranks: int, nodes: int = 1) -> float:
        """Of a number of ranks that was not measured: the nearest measured one, by the ratio that the sheets tell."""
        if ranks == 1:
            return 0.0
        tables = [t for t in self.profile.of("collective") if t.get("kind") == kind and t.get("nodes") == nodes]
        if not tables:
            self._note(f"{kind} of {ranks} ranks on {nodes} nodes: by the sheet of {self.cluster.name}")
            return self._sheets.collective(kind, nbytes, ranks=ranks, nodes=nodes)
        nearest = min(tables, key=lambda each: (abs(each.get("ranks") - ranks), each.get("ranks")))
        measured, near = self._ask(nearest, nbytes)[0], int(nearest.get("ranks"))
        if near == ranks:
            return measured
        self._note(f"{kind} of {ranks} ranks on {nodes} nodes: from that of {near}")
        asked, known = (
            self._sheets.collective(kind, max(nbytes, 1.0), ranks=count, nodes=nodes) for count in (ranks, near)
        )
        return measured * asked / known

    def reshard(self, nbytes: float, *, across_nodes: bool) -> float:
        return self.message(nbytes, across_nodes=across_nodes)

    def host_copy(self, nbytes: float) -> float:
        table = self.profile.find("host_copy")
        return self._sheets.host_copy(nbytes) if table is None else self._ask(table, nbytes)[0]

    def optimizer_step(self, parameters: float) -> float:
        table = self.profile.find("optimizer_step")
        return self._sheets.optimizer_step(parameters) if table is None else self._ask(table, parameters)[0]

    @property
    def _sheets(self) -> AnalyticCosts:
        return AnalyticCosts(self.cluster, self.dtype)

    def _passes(self, model: ModelSizes, of: str, tp: int, *sizes: float) -> Passes:
        forward, backward, weight = self._of_model(model, of, tp, *sizes)
        return Passes(forward, backward, min(weight, backward))

    def _of_model(self, model: ModelSizes, of: str, tp: int, *sizes: float) -> Sequence[float]:
        key = (model, of, tp)
        if key not in self._found:
            self._found[key] = self._table(model, of, tp)
        return self._ask(self._found[key], *sizes)

    def _table(self, model: ModelSizes, of: str, tp: int) -> Table:
        name = self._name(model)
        table = self.profile.find(of, model=name, tp=tp)
        if table is None:
            known = ", ".join(str(each.get("tp")) for each in self.profile.of(of) if each.get("model") == name)
            raise ValueError(
                f"{model.name}: the profile has no {of} at tp={tp}"
                + (f", only at tp={known}" if known else "")
                + "; measure it with python -m fusedrl.profile on as many ranks"
            )
        return table

    def _ask(self, table: Table, *sizes: float) -> Sequence[float]:
        if min(sizes) <= 0:
            return (0.0,) * len(next(iter(table.grid.points.values())))
        if not table.grid.holds(sizes):
            spans = " x ".join(f"{axis[0]:g} to {axis[-1]:g}" for axis in table.grid.axes)
            named = ", ".join(f"{key}={value}" for key, value in table.how)
            self._note(f"{table.of} ({named}): asked beyond the measured {spans}")
        return table.grid(*sizes)

    def _name(self, model: ModelSizes) -> str:
        for name, arch in self.profile.models.items():
            if layer_sizes(arch) == layer_sizes(model.arch):
                return name
        known = ", ".join(self.profile.models)
        raise ValueError(f"{model.name}: the profile has no layers of these sizes; it has those of {known}")

    def _note(self, text: str) -> None:
        self._beyond.add(text)


def layer_sizes(arch: Architecture) -> tuple[object, ...]:
    """What two models must share for their layers and ends to take the same time; not how many layers, nor which of
    them have experts."""
    experts = arch.experts and replace(arch.experts, dense_layers=())
    return (*(getattr(arch, name) for name in _LAYER_SIZES), experts)
