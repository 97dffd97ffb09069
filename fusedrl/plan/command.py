"""`python -m fusedrl.plan`: arguments -> the plan, told or as one JSON object.

Exit codes: 0, 1 where nothing fits, 2 for wrong arguments.
"""

import json
import sys
import time
from collections.abc import Sequence

from fusedrl.plan.calls import CALLS
from fusedrl.plan.gantt import svg_gantt
from fusedrl.plan.heuristics import heuristic_plans
from fusedrl.plan.options import KEYS, Options, assumptions, limits_of, parse, pricer_of, settings_of
from fusedrl.plan.overrides import overrides
from fusedrl.plan.planner import Plan, all_ways, best_plan, nearest
from fusedrl.plan.telling import as_json, describe

USAGE = f"""python -m fusedrl.plan cluster=NAME actor=MODEL critic=MODEL [key=value ...] [--json]

{Options.__doc__}
keys: {", ".join(KEYS)}
calls: {", ".join(CALLS)}"""
Others = dict[str, Plan | None]


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if {"-h", "--help"} & set(arguments):
        print(USAGE)
        return 0
    try:
        options = parse([argument for argument in arguments if argument != "--json"])
        return _run(options, as_object="--json" in arguments)
    except (ValueError, OSError) as error:
        print(f"fusedrl.plan: {error}", file=sys.stderr)
        return 2


def _run(options: Options, *, as_object: bool) -> int:
    began, pricer = time.monotonic(), pricer_of(options)
    settings, limits = settings_of(options), limits_of(options)
    others = heuristic_plans(pricer, names=options.heuristics, settings=settings, limits=limits)
    _tell(f"{time.monotonic() - began:.1f} s: {len(others)} heuristic plans")
    known = [plan for plan in others.values() if plan is not None and plan.outcome.fits]
    plan = best_plan(pricer, limits=limits, settings=settings, known=known, tell=_tell)
    _tell(f"{time.monotonic() - began:.1f} s: done")
    if plan is None:
        over = nearest("nearest", pricer, all_ways(pricer, limits=limits))
        print(f"fusedrl.plan: nothing fits cluster={options.cluster}; nearest: {over.misfit()}", file=sys.stderr)
        return 1
    _write(plan, options)
    told = assumptions(options, pricer)
    print(_object(plan, others, told) if as_object else describe(plan, others, assumptions=told))
    return 0


def _object(plan: Plan, others: Others, told: list[str]) -> str:
    compared = {name: None if other is None else as_json(other) for name, other in others.items()}
    return json.dumps({"assumptions": told, "plan": as_json(plan), "heuristics": compared}, indent=1)


def _write(plan: Plan, options: Options) -> None:
    if options.out is not None:
        options.out.write_text("\n".join(overrides(plan)) + "\n", encoding="utf-8")
    if options.svg is not None:
        options.svg.write_text(svg_gantt(plan), encoding="utf-8")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
