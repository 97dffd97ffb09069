"""Plans predicted and then measured: steps acted out by CPU ranks that sleep for what each part of a call costs.

    python -m fusedrl.bench.plan_truth cluster=h100_1x8 actor=llama_7b critic=llama_7b data.train_batch_size=128 \\
        data.mini_batches=4 out=plan_truth.csv plot=docs/img/plan_truth.png

Predicted is what `python -m fusedrl.plan` tells; all of its keys for cluster, models and data are taken. Measured is
the clock around a whole step (plan_emulated): orders, micro-batches, messages and waits are real, computing sleeps.
`out` keeps a line a plan, and is written anew after each; the ranks are as many as the cluster's, forked here.
"""

import csv
import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rich.table import Table

from fusedrl.bench import arguments
from fusedrl.bench.arguments import ArgumentError
from fusedrl.bench.forked import on_forked_ranks
from fusedrl.bench.job import console
from fusedrl.bench.plan_choice import chosen
from fusedrl.bench.plan_emulated import Acting, act
from fusedrl.bench.plan_figures import Row, row_of, summary
from fusedrl.bench.plan_plot import save_plot
from fusedrl.bench.plan_scene import Scene
from fusedrl.checkpoint.atomic import write_file
from fusedrl.plan.options import limits_of, parse, pricer_of, settings_of
from fusedrl.plan.planner import Plan

BAD_ARGUMENTS = 2  # exit code
IMPORTED = ["fusedrl.bench.plan_emulated"]
ROOM = 120.0  # seconds beyond its sleeping that a plan may take
MOST_RANKS = 16


@dataclass(frozen=True)
class Options:
    """random: plans drawn, by seed, beside the best, the heuristics and the slowest. scale: seconds slept for each
    second predicted. repeats: steps of a plan. block: least seconds of a block of tokens. realtime: the
    ranks go before all other processes (Linux; a right that root has). out, plot: files to write."""

    random: int = 5
    seed: int = 0
    scale: float = 1.0
    repeats: int = 3
    block: float = 0.02
    realtime: bool = False
    timeout: float = 120.0
    out: Path | None = None
    plot: Path | None = None

    def __post_init__(self) -> None:
        for key, least in (("random", 0), ("seed", 0), ("repeats", 1)):
            if getattr(self, key) < least:
                raise ArgumentError(f"{key}: {getattr(self, key)} is too small; at least {least}")
        for key in ("scale", "block", "timeout"):
            if not 0 < getattr(self, key) <= 1e6:
                raise ArgumentError(f"{key}: {getattr(self, key):g} must be above 0 and at most 1e6")

    @property
    def acting(self) -> Acting:
        return Acting(scale=self.scale, block=self.block, timeout=self.timeout, realtime=self.realtime)


def read(words: Sequence[str]) -> tuple[Options, list[Plan]]:
    """Own keys, and the plans of the others. Raises ValueError with one line."""
    own = {field.name for field in fields(Options)}
    mine = [word for word in words if word.partition("=")[0] in own]
    options = arguments.read(Options, mine)
    planned = parse([word for word in words if word not in mine])
    pricer = pricer_of(planned)
    if pricer.costs.cluster.world > MOST_RANKS:
        raise ArgumentError(f"cluster={planned.cluster}: {pricer.costs.cluster.world} ranks, at most {MOST_RANKS}")
    settings, limits = settings_of(planned), limits_of(planned)
    return options, chosen(pricer, random=options.random, seed=options.seed, settings=settings, limits=limits)


def measure(plan: Plan, options: Options) -> Row:
    """A plan's figures, from ranks that live for it alone."""
    scene = Scene.of(plan)
    limit = ROOM + options.timeout + 5 * options.repeats * plan.seconds * options.scale
    found = on_forked_ranks(
        act,
        scene,
        options.acting,
        options.repeats,
        world=scene.world,
        limit=limit,
        timeout=options.timeout,
        imported=IMPORTED,
    )
    return row_of(plan, scene, found[0], options.acting)


def run(plans: Sequence[Plan], options: Options, *, tell: Callable[[str], None]) -> list[Row]:
    rows: list[Row] = []
    for plan in plans:
        rows.append(measure(plan, options))
        tell(f"{plan.name}: predicted {plan.seconds:.2f} s, measured {rows[-1]['measured_s']:.2f} s")
        if options.out is not None:
            write_file(options.out, as_csv(rows).encode())
    return rows


def as_csv(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: f"{x:.6g}" if isinstance(x, float) else x for key, x in row.items()} for row in rows)
    return text.getvalue()


def table(rows: Sequence[Row]) -> Table:
    found = summary(rows)
    made = Table(
        title=f"{found['plans']} plans: rank correlation {found['rank_correlation']:.3f}, mean error "
        f"{found['mean_error']:.1%}, worst {found['worst_error']:.1%}"
    )
    for head in ("plan", "predicted s", "measured s", "error", "generation", "inference", "training"):
        made.add_column(head, justify="left" if head == "plan" else "right")
    for row in rows:
        phases = [
            f"{row[f'predicted_{phase}_s']:.2f} / {row[f'measured_{phase}_s']:.2f}"
            for phase in ("generation", "inference", "training")
        ]
        seconds = [f"{row[key]:.2f}" for key in ("predicted_s", "measured_s")]
        made.add_row(f"{row['plan']}{' (fused)' * row['fused']}", *seconds, f"{row['error']:+.1%}", *phases)
    return made


def main(words: Sequence[str] | None = None) -> int:
    try:
        options, plans = read(list(sys.argv[1:] if words is None else words))
    except (ValueError, OSError) as error:
        print(f"fusedrl.bench.plan_truth: {error}", file=sys.stderr)
        return BAD_ARGUMENTS
    rows = run(plans, options, tell=_tell)
    console().print(table(rows))
    if options.plot is not None:
        save_plot(rows, path=options.plot)
    return 0


def _tell(line: Any) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
