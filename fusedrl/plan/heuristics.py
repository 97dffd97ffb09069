"""Plans as people make them without a search: each a rule for ranks and layouts, other choices made as well as can be.

    colocated        all calls on all ranks; each model in one layout, that in which its main call is fastest and which
                     fits (Megatron-LM's practice: a layout is made for training, and all else runs in it)
    one_layout       all calls on all ranks in one layout for all models, the best of all such
    split            actor and reference on the first half of the ranks, critic and reward model on the second, as
                     OpenRLHF and NeMo-Aligner place models apart; each model in one layout
    dschat           DeepSpeed-Chat's hybrid engine (arXiv 2308.01320): ZeRO-3 over all ranks for training and
                     inference, generation tensor parallel within a node
    real_heuristic   ReaL's baseline (arXiv 2406.14088): one symmetric layout for all, tensor parallel within a node,
                     stages across nodes, data parallel as far as memory lets

Micro-batches, recomputation and which frozen models wait in the CPU's memory are searched for each of them, so that
what they lose is lost by the rule. None of them fuses actor and critic; none moves weights but for dschat's generation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fusedrl.plan.build import lean
from fusedrl.plan.calls import CALLS, Call, Limits, Way, sizes, ways
from fusedrl.plan.meshes import Mesh
from fusedrl.plan.planner import Plan, nearest, solve
from fusedrl.plan.price import Pricer
from fusedrl.plan.search.find import Settings

Shape = tuple[int, int]  # tp, pp
Ways = dict[str, list[Way]]
HALVES = {"actor": 0, "ref": 0, "critic": 1, "reward": 1}


def heuristic_plans(
    pricer: Pricer, *, names: Sequence[str], settings: Settings, limits: Limits
) -> dict[str, Plan | None]:
    """Name -> its plan; one that does not fit says so (`Plan.misfit`). None: no layout divides."""
    return {name: _plan(name, pricer, list(HEURISTICS[name](pricer, limits)), settings) for name in names}


def _plan(name: str, pricer: Pricer, alternatives: Sequence[Ways], settings: Settings) -> Plan | None:
    """The fastest of the alternatives that fit."""
    plans = [plan for ways in alternatives if (plan := _apart(name, pricer, ways, settings)) is not None]
    if plans:
        return min(plans, key=lambda plan: plan.seconds)
    nearly = [nearest(name, pricer, ways) for ways in alternatives]
    return min(nearly, key=lambda plan: plan.outcome.excess, default=None)


def _apart(name: str, pricer: Pricer, every: Ways, settings: Settings) -> Plan | None:
    return solve(name, pricer, every, settings=settings, modes=((False, False),))


def colocated(pricer: Pricer, limits: Limits) -> Iterator[Ways]:
    whole = Mesh(0, pricer.costs.cluster.world)
    yield from _one_layout_a_model(pricer, limits, dict.fromkeys(pricer.models, whole))


def split(pricer: Pricer, limits: Limits) -> Iterator[Ways]:
    half = pricer.costs.cluster.world // 2
    if half:
        places = [Mesh(0, half), Mesh(half, half)]
        yield from _one_layout_a_model(pricer, limits, {model: places[HALVES[model]] for model in pricer.models})


def one_layout(pricer: Pricer, limits: Limits) -> Iterator[Ways]:
    whole = Mesh(0, pricer.costs.cluster.world)
    for shape in _shapes(pricer, limits, "actor", whole):
        found = _in_shapes(pricer, limits, dict.fromkeys(pricer.models, (whole, shape)))
        if all(found.values()):
            yield found


def real_heuristic(pricer: Pricer, limits: Limits) -> Iterator[Ways]:
    """The fewest stages that fit, in turn, each stage on a whole number of nodes' tensor-parallel groups."""
    cluster = pricer.costs.cluster
    whole = Mesh(0, cluster.world)
    tp = max(w for w in pricer.costs.widths(pricer.models["actor"]) if cluster.devices % w == 0)
    stages = sorted(pp for width, pp in _shapes(pricer, limits, "actor", whole) if width == tp)
    tried: Ways | None = None
    for pp in stages:
        found = _in_shapes(pricer, limits, dict.fromkeys(pricer.models, (whole, (tp, pp))))
        if not all(found.values()):
            continue
        tried = found
        if nearest("", pricer, found).outcome.fits:
            break
    if tried is not None:
        yield tried


def dschat(pricer: Pricer, limits: Limits) -> Iterator[Ways]:
    cluster, work = pricer.costs.cluster, pricer.work
    whole = Mesh(0, cluster.world)
    if work.mini_batch % cluster.world:
        return
    found: Ways = {}
    for name, call in CALLS.items():
        if call.model not in pricer.models:
            continue
        if call.kind == "generate":
            widths = [w for w in pricer.costs.widths(pricer.models[call.model]) if cluster.devices % w == 0]
            found[name] = _sized(pricer, call, Way(whole, tp=max(widths)), limits)
        else:
            found[name] = _sized(pricer, call, Way(whole, zero=True), limits)
    yield found


HEURISTICS: dict[str, Callable[[Pricer, Limits], Iterator[Ways]]] = {
    "colocated": colocated,
    "one_layout": one_layout,
    "split": split,
    "dschat": dschat,
    "real_heuristic": real_heuristic,
}


def _one_layout_a_model(pricer: Pricer, limits: Limits, places: dict[str, Mesh]) -> Iterator[Ways]:
    """Trained models in the order of their training's time, frozen ones in that of their inference's; alternatives take
    the next layout of all models where the first do not fit together."""
    ranked = {model: _ranked(pricer, limits, model, mesh) for model, mesh in places.items()}
    for turn in range(max((len(shapes) for shapes in ranked.values()), default=0)):
        if all(ranked.values()):
            chosen = {m: (places[m], shapes[min(turn, len(shapes) - 1)]) for m, shapes in ranked.items()}
            found = _in_shapes(pricer, limits, chosen)
            if all(found.values()):
                yield found


def _ranked(pricer: Pricer, limits: Limits, model: str, mesh: Mesh) -> list[Shape]:
    """Layouts of a model on a mesh, the fastest in its main call first."""
    call = next(call for call in CALLS.values() if call.model == model and call.source is None)
    found: dict[Shape, float] = {}
    for way in _on(pricer, limits, call, mesh):
        seconds = pricer.price(call, way).seconds
        found[way.tp, way.pp] = min(seconds, found.get((way.tp, way.pp), float("inf")))
    return sorted(found, key=lambda shape: found[shape])


def _shapes(pricer: Pricer, limits: Limits, model: str, mesh: Mesh) -> list[Shape]:
    return sorted(_ranked(pricer, limits, model, mesh))


def _on(pricer: Pricer, limits: Limits, call: Call, mesh: Mesh) -> list[Way]:
    model = pricer.models[call.model]
    widths = pricer.costs.widths(model)
    cluster = pricer.costs.cluster
    return list(ways(call, model, pricer.work, cluster=cluster, meshes=[mesh], widths=widths, limits=limits))


def _in_shapes(pricer: Pricer, limits: Limits, chosen: dict[str, tuple[Mesh, Shape]]) -> Ways:
    found: Ways = {}
    for name, call in CALLS.items():
        if call.model in chosen:
            mesh, shape = chosen[call.model]
            every = [way for way in _on(pricer, limits, call, mesh) if (way.tp, way.pp) == shape and way.cp == 1]
            found[name] = lean(pricer, name, every) if every else []
    return found


def _sized(pricer: Pricer, call: Call, way: Way, limits: Limits) -> list[Way]:
    every = [replace(way, size=size) for size in sizes(call, way, pricer.work)]
    if call.kind == "train" and limits.recompute:
        every += [replace(each, recompute=True) for each in every]
    return lean(pricer, call.name, every)
