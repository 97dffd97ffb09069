"""Bubble ratios, planned and emulated, over depth x micro-batches x mix of lengths x method, by Hydra's multirun.

    bash launch/sweep_bubble.sh                                       # the small grid of configs/sweep_bubble.yaml
    bash launch/sweep_bubble.sh depth=4,8 method=serial,auto time_limit=20 --folder runs/bubbles
    bash launch/sweep_bubble.sh --slurm hydra.launcher.partition=cpu  # each cell a Slurm job (extra `slurm`)

Keys are those of Cell (bubble_cell.py); a value with commas is swept. FOLDER/cells keeps a file for each cell: the same
command again makes what is missing, half-written, or of other settings. FOLDER/index.html and sweep.csv come last, also
of a sweep that is interrupted. Exit code 1: cells are missing; 2: a key or a value is wrong; 130: interrupted.
"""

import argparse
import contextlib
import itertools
import shlex
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from fusedrl.bench import arguments
from fusedrl.bench.arguments import ArgumentError
from fusedrl.bench.bubble_cell import AXES, Cell, changed, failure_of, read_cell, write_cell
from fusedrl.bench.bubble_page import PAGE, write_sweep
from fusedrl.bench.bubble_ranks import measure
from fusedrl.config.load import CONFIGS
from fusedrl.telemetry.progress import Progress

CONFIG = "sweep_bubble"
BAD_ARGUMENTS, MISSING, INTERRUPTED = 2, 1, 130  # exit codes
POLL_S = 1.0  # how often files of Slurm's jobs are looked for
Overrides = dict[str, list[str]]


def main(argv: Sequence[str] | None = None) -> int:
    options = _parse(sys.argv[1:] if argv is None else argv)
    own = [word for word in options.words if word.lstrip("+~").startswith(("hydra.", "hydra/"))]
    overrides, problems = overrides_of([word for word in options.words if word not in own])
    if options.slurm and not _has_submitit():
        problems.append("--slurm: no hydra-submitit-launcher: pip install --constraint constraints.txt '.[slurm]'")
    if problems:
        for problem in problems:
            print(f"sweep_bubble: {problem}", file=sys.stderr)
        return BAD_ARGUMENTS
    cells = grid(overrides)
    folder = options.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["bash", "launch/sweep_bubble.sh", *(sys.argv[1:] if argv is None else argv)])
    interrupted = False
    try:
        run(cells, overrides, own, folder=folder, slurm=options.slurm)
    except KeyboardInterrupt:
        interrupted = True
    missing = write_sweep(cells, folder=folder, command=command)
    print(folder / PAGE, flush=True)
    if missing:
        told = "interrupted: " if interrupted else ""
        print(f"sweep_bubble: {told}{len(missing)} cells are missing; the same command goes on", file=sys.stderr)
    return INTERRUPTED if interrupted else MISSING if missing else 0


def overrides_of(words: Sequence[str]) -> tuple[Overrides, list[str]]:
    """(the values of each key, what is wrong: a line for each bad key)."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    found: Overrides = {}
    problems = []
    for word in words:
        try:
            (override,) = OverridesParser.create().parse_overrides([word])
            key, _, text = word.partition("=")
            sweeps = override.is_sweep_override()
            values = list(override.sweep_string_iterator()) if sweeps else [text]
            if key in found:
                raise ArgumentError(f"{key}: given twice")
            for value in values:
                arguments.read(Cell, [f"{key}={value}"])
            found[key] = values
        except HydraException as error:
            problems.append(f"{word}: {str(error).splitlines()[0]}")
        except ArgumentError as error:
            problems.append(str(error))
    return found, problems


def swept() -> Overrides:
    """The values of the config file, of keys that are swept where none is named."""
    found = yaml.safe_load((CONFIGS / f"{CONFIG}.yaml").read_text())["hydra"]["sweeper"]["params"]
    return {key: str(values).split(",") for key, values in found.items()}


def grid(overrides: Overrides) -> list[Cell]:
    """All combinations, the axes first, the last axis changing fastest."""
    values = swept() | overrides
    keys = [*AXES, *(key for key in values if key not in AXES)]
    chosen = itertools.product(*(values[key] for key in keys if key in values))
    present = [key for key in keys if key in values]
    cells = [arguments.read(Cell, [f"{k}={v}" for k, v in zip(present, each, strict=True)]) for each in chosen]
    return list(dict.fromkeys(cells))


def run(cells: Sequence[Cell], overrides: Overrides, own: Sequence[str], *, folder: Path, slurm: bool) -> None:
    """Make the cells that are missing; one that fails is told and left out."""
    left = [cell for cell in cells if read_cell(cell, folder=folder) is None]
    progress = Progress("cell", total=len(cells), first=len(cells) - len(left))
    progress.say(f"{len(cells)} cells, {len(cells) - len(left)} of them kept from before, in {folder}")
    _tell_changed(left, folder=folder, progress=progress)
    if not left:
        return
    try:
        watching = _watching(left, folder=folder, progress=progress) if slurm else contextlib.nullcontext()
        with watching:
            multirun(overrides, own, folder=folder, slurm=slurm, told=None if slurm else progress.done)
    finally:
        progress.close()


def _tell_changed(left: Sequence[Cell], *, folder: Path, progress: Progress) -> None:
    stale = {cell: keys for cell in left if (keys := changed(cell, folder=folder))}
    if stale:
        differing = ", ".join(dict.fromkeys(key for each in stale.values() for key in each))
        progress.say(f"{len(stale)} cells were made with other settings ({differing}): they are made again")


def make(cell: Cell, *, folder: Path, told: Callable[[str], None] | None) -> None:
    """One cell's file, unless it is there; where it cannot be made, the reason."""
    if read_cell(cell, folder=folder) is not None:
        return
    try:
        found = measure(cell)
        write_cell(cell, found, folder=folder)
    except Exception as error:
        path = failure_of(cell, folder=folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{type(error).__name__}: {error}\n")
        found = {"failed": str(error)}
    if told is not None:
        told(f"{cell.told()}: {line_of(found)}")


def line_of(found: dict[str, Any]) -> str:
    if reason := found.get("failed") or found.get("refused"):
        return f"{'failed' if 'failed' in found else 'refused'}: {reason}"
    return f"bubble {found['planned_bubble']:.3f} planned, {found['measured_bubble']:.3f} emulated"


def multirun(
    overrides: Overrides, own: Sequence[str], *, folder: Path, slurm: bool, told: Callable[[str], None] | None
) -> None:
    """A Hydra job for each cell, here in turn or on Slurm; jobs of cells that are there end at once."""
    import hydra
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store(
        "bubble_cell", node=asdict(Cell())
    )  # as a class it would be frozen, Hydra's keys with it

    @hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=CONFIG)
    def job(config: Any) -> None:
        words = [f"{key}={'null' if value is None else value}" for key, value in config.items()]
        make(arguments.read(Cell, words), folder=folder, told=told)

    before = sys.argv
    sys.argv = [before[0], *hydra_arguments(overrides, own, folder=folder, slurm=slurm)]
    try:
        job()
    finally:
        sys.argv = before


def hydra_arguments(overrides: Overrides, own: Sequence[str], *, folder: Path, slurm: bool) -> list[str]:
    place = str(folder).replace("'", "\\'")
    found = ["--multirun", f"hydra.sweep.dir='{place}/.hydra'", "hydra.output_subdir=null", "hydra.job.chdir=false"]
    found += ["hydra/hydra_logging=none", "hydra/job_logging=none"]  # a line a cell is told here
    if slurm:
        found += ["hydra/launcher=submitit_slurm", f"hydra.launcher.submitit_folder='{place}/.submitit/%j'"]
    return [*found, *own, *(f"{key}={','.join(values)}" for key, values in overrides.items())]


@contextlib.contextmanager
def _watching(left: Sequence[Cell], *, folder: Path, progress: Progress) -> Iterator[None]:
    """Tells cells as their files come from jobs elsewhere."""
    over = threading.Event()
    waiting = list(left)

    def look() -> None:
        for cell in list(waiting):
            found = read_cell(cell, folder=folder)
            if found is not None:
                waiting.remove(cell)
                progress.done(f"{cell.told()}: {line_of(found)}")

    def watch() -> None:
        while not over.wait(POLL_S):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        look()


def _has_submitit() -> bool:
    try:
        import hydra_plugins.hydra_submitit_launcher  # noqa: F401
    except ImportError:
        return False
    return True


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    about = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="sweep_bubble", description=__doc__, formatter_class=about)
    parser.add_argument("--folder", type=Path, default=Path("runs/sweep_bubble"), help="of the sweep (%(default)s)")
    parser.add_argument("--slurm", action="store_true", help="each cell is a Slurm job")
    parser.add_argument("words", nargs="*", metavar="key=value", help="of a cell; with commas: swept")
    return parser.parse_intermixed_args(argv)


if __name__ == "__main__":
    sys.exit(main())
