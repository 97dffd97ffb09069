"""The pipeline benchmark over many problems, each in a job of its own: one JSON line a problem, and a table.

    python -m fusedrl.bench.pipeline_table out=FILE.jsonl unit_ms=2 methods=[serial,greedy,auto,fused_split]

Problems that FILE already holds with the same options are left out, so that a run may be interrupted and started again.
Problems of more than `ranks` ranks are folded onto these (fold.py). A failed job is told and left for the next start.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fusedrl.bench import arguments
from fusedrl.bench.arguments import ArgumentError
from schedules.problem import Problem, ProblemError

PUBLISHED = tuple(Path(f"configs/schedule/exp{number}.yaml") for number in range(12))
Line = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """out: JSON lines, read and added to; problems: files; ranks: the most a job has. The others: bench.pipeline's."""

    out: Path
    problems: tuple[Path, ...] = PUBLISHED
    ranks: int = 8
    methods: tuple[str, ...] = ("serial", "interleaved", "zero-bubble", "greedy", "auto", "fused_split")
    unit_ms: float = 2.0
    repeats: int = 5
    time_limit: float = 20.0
    seed: int = 0
    payload: int = 16384

    def of_job(self) -> Line:
        """What a job is asked, besides its problem; kept with its results."""
        asked = {key: value for key, value in asdict(self).items() if key not in ("out", "problems", "ranks")}
        return asked | {"methods": list(self.methods)}


def main() -> None:
    try:
        options = arguments.read(Options, sys.argv[1:])
        run(options)
    except (ArgumentError, ProblemError, OSError) as error:
        print(f"fusedrl.bench.pipeline_table: {error}", file=sys.stderr)
        sys.exit(2)
    print(markdown([line for line in done(options.out) if line["options"] == options.of_job()]))


def run(options: Options) -> None:
    """Every problem that is missing, one after the other."""
    there = {line["problem"] for line in done(options.out) if line["options"] == options.of_job()}
    for path in (path for path in options.problems if str(path) not in there):
        given = Problem.load(path).ranks
        ranks = min(given, options.ranks)
        results = run_job(path, options, ranks=ranks)
        if results is None:
            print(f"{path}: the job failed, see above; start again to retry", file=sys.stderr)
            continue
        line = {"problem": str(path), "given_ranks": given, "ranks": ranks, "options": options.of_job()}
        with options.out.open("a") as file:
            file.write(json.dumps(line | {"methods": results}) + "\n")


def run_job(problem: Path, options: Options, *, ranks: int) -> Line | None:
    """The results of one torchrun, by method; None where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "results.json"
        keys = {"problem": problem, "out": out, "scale": "true"} | options.of_job()
        keys["methods"] = f"[{','.join(options.methods)}]"
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        words = [f"{key}={value}" for key, value in keys.items()]
        environment = {"OMP_NUM_THREADS": "1"} | os.environ
        subprocess.run([*launch, "-m", "fusedrl.bench.pipeline", *words], check=False, env=environment)
        return json.loads(out.read_text()) if out.is_file() else None


def done(path: Path) -> Iterator[Line]:
    """The lines of a file; one that an interrupted run left unfinished is passed over."""
    for text in path.read_text().splitlines() if path.is_file() else ():
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            continue


def markdown(lines: Sequence[Line]) -> str:
    """A row for each problem and method: makespans in ms, measured over replayed, bubbles, and serial over it."""
    heads = ["problem", "ranks", "method", "planned ms", "replayed", "measured", "measured / replayed"]
    heads += ["bubble planned", "measured", "serial / it, planned", "measured"]
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for line in lines:
        serial = line["methods"].get("serial", {})
        folded = f" of {line['given_ranks']}" if line["given_ranks"] != line["ranks"] else ""
        for method, found in line["methods"].items():
            start = f"| {Path(line['problem']).stem} | {line['ranks']}{folded} | {method} |"
            rows.append(f"{start} {_refused(found) or _cells(found, serial)} |")
    return "\n".join(rows)


def _refused(found: Line) -> str:
    return f"refused: {found['refused']}" + " |" * 7 if "refused" in found else ""


def _cells(found: Line, serial: Line) -> str:
    spans = [f"{found[f'{kind}_makespan_ms']:.0f}" for kind in ("planned", "replayed", "measured")]
    shares = [f"{found[key]:.3f}" for key in ("measured_over_replayed", "planned_bubble", "measured_bubble")]
    against = [
        f"{serial[key] / found[key]:.3f}" if key in serial else ""
        for key in ("planned_makespan_ms", "measured_makespan_ms")
    ]
    return " | ".join([*spans, *shares, *against])


if __name__ == "__main__":
    main()
