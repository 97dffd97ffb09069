"""Plans of ReaL's published settings against plans without a search, as this repository's simulator predicts them.

    python -m fusedrl.bench.plans out=docs/img/plans.csv

LLaMA 7B to 70B as actor, with a critic of 7B or as large, on 8 to 128 GPUs that grow with the actor (arXiv 2406.14088,
section 8), 512 samples of 2048 tokens or 128 of 8192: as many tokens a step. As there, every response has its full
length (prompts have 1024 tokens; the rest of the context is the response), in 8 mini-batches. Nothing here is measured:
ReaL's authors had H100s, this has their sheet.
"""

import csv
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusedrl.bench.arguments import one_of, read
from fusedrl.plan.heuristics import HEURISTICS, heuristic_plans
from fusedrl.plan.options import Options, assumptions, limits_of, pricer_of, settings_of
from fusedrl.plan.planner import Plan, best_plan

SIZES = {"llama_7b": 16, "llama_13b": 32, "llama_34b": 64, "llama_70b": 128}  # ranks of the weak scaling
CONTEXTS = {2048: (512, 1024), 8192: (128, 1024)}  # context -> samples, prompt tokens
NODE = 8
COLUMNS = ("actor", "critic", "gpus", "context", "best_s", "proved", "fused", *HEURISTICS)


@dataclass(frozen=True)
class BenchOptions:
    """cluster: the device. actors, contexts: rows to make. lengths: full, or mean: log-normal of half the longest."""

    cluster: str = "h100"
    actors: tuple[str, ...] = tuple(SIZES)
    contexts: tuple[int, ...] = tuple(CONTEXTS)
    lengths: str = "full"
    nodes: int = 2_000_000
    out: Path | None = None


def settings(options: BenchOptions) -> Iterator[Options]:
    """One for each row; the 7B pair on one node too, where it fits."""
    for context in options.contexts:
        samples, prompt = CONTEXTS[context]
        rows = [
            (actor, critic, SIZES[actor]) for actor in options.actors for critic in dict.fromkeys(("llama_7b", actor))
        ]
        if "llama_7b" in options.actors:
            rows.insert(0, ("llama_7b", "llama_7b", NODE))
        for actor, critic, ranks in rows:
            yield Options(
                cluster=f"{options.cluster}_{ranks // NODE}x{NODE}",
                actor=actor,
                critic=critic,
                data__train_batch_size=samples,
                data__max_prompt_length=prompt,
                data__max_response_length=context - prompt,
                data__mean_response_length=float(context - prompt) / (1 if options.lengths == "full" else 2),
                search__nodes=options.nodes,
            )


def row(options: Options) -> tuple[dict[str, str], list[str]]:
    """(a row's cells, what it assumes)."""
    pricer, limits, search = pricer_of(options), limits_of(options), settings_of(options)
    others = heuristic_plans(pricer, names=list(HEURISTICS), settings=search, limits=limits)
    known = [plan for plan in others.values() if plan is not None and plan.outcome.fits]
    best = best_plan(pricer, limits=limits, settings=search, known=known)
    cells = {
        "actor": options.actor,
        "critic": options.critic,
        "gpus": str(pricer.costs.cluster.world),
        "context": str(pricer.work.row),
        "best_s": "-" if best is None else f"{best.seconds:.1f}",
        "proved": "-" if best is None else "yes" if best.proved else "no",
        "fused": "-" if best is None else "yes" if best.fused else "no",
    }
    return cells | {name: _gain(other, best) for name, other in others.items()}, assumptions(options, pricer)


def _gain(other: Plan | None, best: Plan | None) -> str:
    """How many times the best plan's step."""
    if other is None:
        return "does not divide"
    if best is None or not other.outcome.fits:
        return "does not fit"
    return f"{other.seconds / best.seconds:.2f}"


def table(rows: Sequence[dict[str, str]]) -> str:
    """Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    return "\n".join([*lines, *("| " + " | ".join(cells[key] for key in COLUMNS) + " |" for cells in rows)])


def main(argv: Sequence[str] | None = None) -> int:
    try:
        options = read(BenchOptions, sys.argv[1:] if argv is None else argv)
        for key, given, known in (("actors", options.actors, SIZES), ("contexts", options.contexts, CONTEXTS)):
            for value in given:
                one_of(str(value), [str(each) for each in known], key=key)
        made, told = _make(options)
    except ValueError as error:
        print(f"fusedrl.bench.plans: {error}", file=sys.stderr)
        return 2
    if options.out is not None:
        with options.out.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(made)
    print("\n".join(dict.fromkeys(told)))
    print("\n" + table(made))
    return 0


def _make(options: BenchOptions) -> tuple[list[dict[str, str]], list[str]]:
    made, told = [], []
    for each in settings(options):
        began = time.monotonic()
        cells, lines = row(each)
        made.append(cells)
        told += [line for line in lines if not line.startswith(each.actor) and " nodes of " not in line]
        print(f"{' '.join(cells.values())}  ({time.monotonic() - began:.0f} s)", file=sys.stderr, flush=True)
    return made, told


if __name__ == "__main__":
    sys.exit(main())
