"""Learning curves: a PPO experiment under several algorithms and seeds, and what came out as table, CSV and picture.

    python -m fusedrl.bench.learning_curves experiment=arithmetic variants=[ppo,grpo,rloo] seeds=[0,1,2] steps=40

Each run is a torchrun job of its own, one after the other, in out/EXPERIMENT/VARIANT/seedN. One that has all its steps
is not repeated; one that was interrupted goes on from its last saved state. A seed sets the draws of samples and
mini-batches and the order of prompts; data, start model and, where there is one, the reward model are the same for all.
With nothing left to run the command only draws: EXPERIMENT.csv, .md and .png in `out`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fusedrl.bench import arguments
from fusedrl.bench.arguments import ArgumentError
from fusedrl.bench.curve_plot import save_plot
from fusedrl.bench.curves import as_csv, curve, markdown, metrics_of, records
from fusedrl.checkpoint.atomic import write_file

METRICS = ("critic/score/mean", "val-core/")
SAVE_FREQ = 10  # steps that an interrupted run may lose


@dataclass(frozen=True)
class Options:
    """variants: names of configs/algorithm; ranks: of each job; overrides: further keys of every run, without commas in
    their values; metrics: names of what is drawn, or their beginnings."""

    out: Path = Path("runs/curves")
    experiment: str = "arithmetic"
    variants: tuple[str, ...] = ("ppo", "grpo", "rloo")
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int = 40
    test_freq: int = 5
    ranks: int = 2
    overrides: tuple[str, ...] = ()
    metrics: tuple[str, ...] = METRICS

    def folder(self, variant: str, seed: int) -> Path:
        return self.out / self.experiment / variant / f"seed{seed}"


def main() -> None:
    try:
        options = arguments.read(Options, sys.argv[1:])
        failed = [folder for folder, command in missing(options) if not run_job(command, folder=folder)]
        print(report(options))
    except (ArgumentError, ValueError, OSError) as error:
        print(f"fusedrl.bench.learning_curves: {error}", file=sys.stderr)
        sys.exit(2)
    for folder in failed:
        print(f"{folder}: the run failed; start again to go on", file=sys.stderr)
    sys.exit(1 if failed else 0)


def missing(options: Options) -> Iterator[tuple[Path, list[str]]]:
    """(folder, command) of each run without all its steps, seed by seed, so that an early end leaves whole seeds."""
    for seed in options.seeds:
        for variant in options.variants:
            folder = options.folder(variant, seed)
            if steps_done(folder) < options.steps:
                yield folder, command(options, variant=variant, seed=seed)


def command(options: Options, *, variant: str, seed: int) -> list[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.ranks}"]
    keys = [f"experiment={options.experiment}", f"algorithm={variant}", f"trainer.seed={seed}", f"data.seed={seed}"]
    keys += [f"trainer.total_training_steps={options.steps}", f"trainer.test_freq={options.test_freq}"]
    keys += [f"trainer.default_local_dir={options.folder(variant, seed)}", f"trainer.save_freq={SAVE_FREQ}"]
    keys += [f"trainer.experiment_name={options.experiment}-{variant}-{seed}", "trainer.export_hf=false"]
    return [*launch, "-m", "fusedrl.ppo", *keys, "trainer.max_ckpt_to_keep=1", *options.overrides]


def run_job(command: list[str], *, folder: Path) -> bool:
    print(f"{folder}: starts", file=sys.stderr, flush=True)
    return subprocess.run(command, check=False, env={"OMP_NUM_THREADS": "1"} | os.environ).returncode == 0


def steps_done(folder: Path) -> int:
    """The last step that a run has told; 0 where it has told none."""
    return max((int(line["step"]) for line in records(folder / "metrics.jsonl")), default=0)


def report(options: Options) -> str:
    """Writes CSV, table and picture of the runs that are done; the table."""
    runs = {
        variant: [folder / "metrics.jsonl" for folder in folders]
        for variant in options.variants
        if (folders := [f for s in options.seeds if steps_done(f := options.folder(variant, s)) >= options.steps])
    }
    if not runs:
        raise ValueError(f"{options.out / options.experiment}: no run has {options.steps} steps; see above")
    metrics = list(dict.fromkeys(m for paths in runs.values() for m in metrics_of(paths[0], options.metrics)))
    found = [
        curve(paths, variant=variant, metric=metric)
        for metric in metrics
        for variant, paths in runs.items()
        if metric in metrics_of(paths[0], options.metrics)
    ]
    table = markdown(runs, metrics)
    write_file(options.out / f"{options.experiment}.csv", as_csv(found))
    write_file(options.out / f"{options.experiment}.md", table + "\n")
    save_plot(found, path=options.out / f"{options.experiment}.png", title=options.experiment)
    return table


if __name__ == "__main__":
    main()
