"""A plan in words: its calls, its memory, what it was computed from, and where other plans lose to it."""

from collections.abc import Mapping

from fusedrl.plan.build import FUSED, STREAM, TRAINING
from fusedrl.plan.calls import Way
from fusedrl.plan.cluster import GIB
from fusedrl.plan.gantt import text_gantt
from fusedrl.plan.overrides import not_taken, overrides
from fusedrl.plan.planner import Plan
from fusedrl.plan.streamed import STREAMED

Others = Mapping[str, Plan | None]


def describe(plan: Plan, others: Others, *, assumptions: list[str]) -> str:
    """The whole answer of the command."""
    proof = "no faster plan is in the space" if plan.proved else "the best that was met, not proved"
    parts = [
        "predicted, not measured; what it rests on:\n" + "\n".join(f"  {line}" for line in assumptions),
        f"plan: {plan.seconds:.4g} s a step ({proof}); {_phases(plan)}",
        calls_table(plan),
        memory_line(plan),
        text_gantt(plan),
        comparison(plan, others),
        "arguments of -m fusedrl.ppo:\n" + "\n".join(f"  {line}" for line in overrides(plan)),
    ]
    lost = not_taken(plan)
    return "\n\n".join(parts + (["not taken by the trainer: " + "; ".join(lost)] if lost else []))


def calls_table(plan: Plan) -> str:
    """A call a line: seconds with their parts, layout, micro-batch."""
    moved = {unit: seconds for unit, _, _, seconds, _ in plan.spans()}
    lines = [f"{'call':<14} {'seconds':>9}  {'where':<34} {'size':>6}  parts"]
    for call, way in plan.ways.items():
        if (plan.fused and call == TRAINING[1]) or (plan.streamed and call in STREAMED[1:]):
            lines.append(f"{call:<14} {'with it':>9}  {way!s:<34} {way.size:>6}{_flags(way)}")
            continue
        price = plan.price(call)
        weights = moved.get(_unit_of(plan, call), 0.0)
        parts = {**({"weights": weights} if weights else {}), **price.parts}
        told = ", ".join(f"{key} {value:.3g}" for key, value in parts.items() if value > 0.0005)
        lines.append(f"{call:<14} {price.seconds + weights:>9.4g}  {way!s:<34} {way.size:>6}  {told}{_flags(way)}")
    return "\n".join(lines)


def _unit_of(plan: Plan, call: str) -> str:
    if plan.streamed and call in STREAMED:
        return STREAM
    return FUSED if plan.fused and call in TRAINING else call


def memory_line(plan: Plan) -> str:
    """The fullest rank."""
    room = plan.pricer.costs.cluster.device.room
    (rank, phase), most = max(plan.memory().items(), key=lambda item: item[1].total)
    kinds = ", ".join(f"{kind} {nbytes / GIB:.1f}" for kind, nbytes in most.kinds.items() if nbytes > 0.05 * GIB)
    return f"memory: at most {most.total / GIB:.1f} of {room / GIB:.1f} GiB, on rank {rank} in {phase} ({kinds})"


def comparison(plan: Plan, others: Others) -> str:
    """Where each other plan takes longer, phase by phase and call by call."""
    return "\n".join(["against", *(_against(plan, name, other) for name, other in others.items())])


def _against(plan: Plan, name: str, other: Plan | None) -> str:
    if other is None:
        return f"  {name:<15} no layout divides models, samples and ranks"
    misfit = other.misfit()
    if misfit is not None:
        return f"  {name:<15} does not fit: {misfit}"
    phases = ", ".join(f"{key} {value - plan.phases[key]:+.3g}" for key, value in other.phases.items())
    gaps = {call: took - call_seconds(plan).get(call, 0.0) for call, took in call_seconds(other).items()}
    largest = sorted(gaps.items(), key=lambda item: -abs(item[1]))[:3]
    told = ", ".join(f"{call} {gap:+.3g}" for call, gap in largest if abs(gap) > 0.0005)
    line = f"  {name:<15} {other.seconds:.4g} s, {other.seconds / plan.seconds:.2f}x: {phases} s"
    return line + (f"\n{'':<18}calls, most: {told} s" if told else "")


def call_seconds(plan: Plan) -> dict[str, float]:
    """Seconds of each call, weights included; training of both models together as `training`."""
    found: dict[str, float] = {}
    for unit, _, begin, _, end in plan.spans():
        key = "training" if unit.split("+")[0] in TRAINING else unit
        found[key] = found.get(key, 0.0) + end - begin
    return found


def as_json(plan: Plan) -> dict[str, object]:
    """Plain values of a plan."""
    return {
        "name": plan.name,
        "seconds": plan.seconds,
        "proved": plan.proved,
        "fused": plan.fused,
        "streamed": plan.streamed,
        "fits": plan.misfit() is None,
        "misfit": plan.misfit(),
        "phases": plan.phases,
        "calls": {
            call: {
                "ranks": str(way.mesh),
                "tp": way.tp,
                "pp": way.pp,
                "dp": way.dp,
                "cp": way.cp,
                "size": way.size,
                "resident": way.resident,
                "recompute": way.recompute,
                "zero": way.zero,
                "parts": dict(plan.price(call).parts),
            }
            for call, way in plan.ways.items()
        },
        "spans": [
            {"unit": unit, "ranks": str(way.mesh), "begin": begin, "weights": moved, "end": end}
            for unit, way, begin, moved, end in plan.spans()
        ],
        "memory_gib": {f"{rank}/{phase}": most.total / GIB for (rank, phase), most in plan.memory().items()},
        "overrides": overrides(plan),
        "not_taken": not_taken(plan),
    }


def _phases(plan: Plan) -> str:
    return ", ".join(f"{key} {value:.4g}" for key, value in plan.phases.items())


def _flags(way: Way) -> str:
    told = {"recomputed": way.recompute, "ZeRO-3": way.zero, "waits in CPU memory": not way.resident}
    return "".join(f"; {text}" for text, true in told.items() if true)
