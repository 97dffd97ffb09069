"""Medians of a run's metrics over its steps: `python -m fusedrl.bench.medians runs/NAME/metrics.jsonl [NAME ...]`.

Names select metrics by their beginning (default: timing_s/ and perf/bubble_ratio/). The first two training steps are
left out: they warm caches up.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

SKIPPED = 2
NAMES = ("timing_s/", "perf/bubble_ratio/")


def medians(path: Path, *, names: Sequence[str] = NAMES) -> dict[str, float]:
    """Metric -> median over the steps that have it. ValueError where too few steps are left."""
    steps = [json.loads(line) for line in path.read_text().splitlines()]
    steps = [step for step in steps if step["step"] > SKIPPED]
    if not steps:
        raise ValueError(f"{path}: no step after the first {SKIPPED}; run more")
    chosen = sorted({name for step in steps for name in step if name.startswith(tuple(names))})
    return {name: statistics.median(step[name] for step in steps if name in step) for name in chosen}


def main() -> None:
    parser = argparse.ArgumentParser(description="Medians of a run's metrics over its steps")
    parser.add_argument("path", type=Path, help="metrics.jsonl of a run")
    parser.add_argument("names", nargs="*", default=NAMES, help="beginnings of metric names")
    options = parser.parse_args()
    for name, value in medians(options.path, names=options.names).items():
        print(f"{name:40s} {value:.4g}")


if __name__ == "__main__":
    main()
