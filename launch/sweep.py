"""A run for each combination of values, by Hydra's multirun: `python launch/sweep.py MODULE key=value key=a,b,c ...`

    python launch/sweep.py --ranks 4 fusedrl.ppo experiment=arithmetic trainer.seed=1,2,3       # here, one by one
    python launch/sweep.py --ranks 8 --slurm fusedrl.ppo experiment=mine actor_rollout_ref.actor.optim.lr=1e-6,3e-6 \\
        hydra.launcher.partition=gpu hydra.launcher.gpus_per_node=8 hydra.launcher.timeout_min=600

A value with commas outside of brackets and quotes is swept, as Hydra has it (also range(1,4), choice(a,b)). Each run is
one node's torchrun.sh in a folder of its own, FOLDER/key=value,...: the same sweep again goes on where it stopped, and
runs that are done end at once. With --slurm each run is a Slurm job (extra `slurm`: hydra-submitit-launcher);
arguments that begin with `hydra` go to Hydra, hydra.launcher.* are the job's.
"""

import argparse
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BAD_ARGUMENTS = 2


def fail(text: str) -> None:
    print(f"sweep.py: {text}", file=sys.stderr, flush=True)
    raise SystemExit(BAD_ARGUMENTS)


def sorted_out(arguments: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """(the same in all runs, swept, Hydra's own)."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    own = [each for each in arguments if each.lstrip("+~").startswith(("hydra.", "hydra/"))]
    fixed, swept = [], []
    for argument in (each for each in arguments if each not in own):
        try:
            (override,) = OverridesParser.create().parse_overrides([argument])
        except HydraException as error:
            fail(f"{argument}: {str(error).splitlines()[0]}")
        (swept if override.is_sweep_override() else fixed).append(argument)
    return fixed, swept, own


def folder_of(overrides: Sequence[str]) -> str:
    """The name of a run's folder: what tells it from the others."""
    return ",".join(overrides).replace("/", "_")


def command_of(module: str, fixed: Sequence[str], chosen: Sequence[str], *, folder: Path) -> list[str]:
    """One run. The folder's name has = and commas, so it is quoted."""
    path = str(folder / folder_of(chosen)).replace("'", "\\'")
    place = f"trainer.default_local_dir='{path}'"
    return ["bash", str(ROOT / "launch/torchrun.sh"), module, *fixed, *chosen, place]


def hydra_arguments(swept: Sequence[str], own: Sequence[str], *, folder: Path, slurm: bool, ranks: int) -> list[str]:
    """Swept keys are none of this program's configuration, so they are added to it."""
    found = ["--multirun", f"hydra.sweep.dir={folder}/.hydra", "hydra.output_subdir=null", "hydra.job.chdir=false"]
    if slurm:
        found += ["hydra/launcher=submitit_slurm", f"hydra.launcher.cpus_per_task={ranks}"]
        found += [f"hydra.launcher.submitit_folder={folder}/.submitit/%j"]
    return [*found, *own, *(each if each.startswith("+") else f"+{each}" for each in swept)]


def runs_of(swept: Sequence[str]) -> int:
    """How many combinations there are."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parsed = OverridesParser.create().parse_overrides(list(swept))
    return math.prod(sum(1 for _ in each.sweep_string_iterator()) for each in parsed)


def told(number: int, total: int, *, name: str, seconds: float, since: float) -> str:
    """A run that has ended: which, how long it took, and the time left at the pace so far."""
    left = since / number * (total - number)
    return f"sweep.py: run {number}/{total} ended in {seconds / 60:.1f} min, {left / 60:.1f} min left: {name}"


def sweep(module: str, fixed: Sequence[str], *, folder: Path, ranks: int, total: int, slurm: bool) -> None:
    """All runs, as sys.argv tells Hydra. What a job needs travels with it: on Slurm it is another process."""
    import hydra

    first = time.time()

    @hydra.main(version_base="1.3", config_path=str(ROOT / "launch"))  # holds no config: keys are what is swept
    def run(config: Any) -> None:
        from hydra.core.hydra_config import HydraConfig

        began = time.time()
        chosen = [each.removeprefix("+") for each in HydraConfig.get().overrides.task]
        environment = {"FUSEDRL_PYTHON": sys.executable, **os.environ, "NPROC_PER_NODE": str(ranks)}
        # Slurm warns all processes of a job by SIGUSR2 when submitit is to queue it again; ranks are not to end by it
        before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        started = subprocess.Popen(command_of(module, fixed, chosen, folder=folder), env=environment)
        signal.signal(signal.SIGUSR2, before)
        if code := started.wait():
            raise RuntimeError(f"{folder_of(chosen)} ended with code {code}")
        if not slurm:  # there runs go side by side
            number, now = HydraConfig.get().job.num + 1, time.time()
            line = told(number, total, name=folder_of(chosen), seconds=now - began, since=now - first)
            print(line, file=sys.stderr, flush=True)

    run()


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python launch/sweep.py", description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, required=True, help="of each run, on one node")
    parser.add_argument("--folder", type=Path, default=Path("runs/sweep"), help="of all runs (runs/sweep)")
    parser.add_argument("--slurm", action="store_true", help="each run is a Slurm job")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="MODULE key=value key=a,b ...")
    options = parser.parse_args(argv)
    if options.ranks < 1:
        fail(f"--ranks {options.ranks}: at least 1 is needed")
    if not options.command or "=" in options.command[0]:
        fail("the module to run is missing, as in: --ranks 4 fusedrl.ppo trainer.seed=1,2")
    return options


def main(argv: Sequence[str]) -> None:
    options = parse(argv)
    module, *arguments = options.command
    folder = options.folder.absolute()
    if options.slurm:
        try:
            import hydra_plugins.hydra_submitit_launcher  # noqa: F401
        except ImportError:
            fail(f"no hydra-submitit-launcher in {sys.executable}: pip install --constraint constraints.txt '.[slurm]'")
    fixed, swept, own = sorted_out(arguments)
    if not swept:
        fail("nothing to sweep: give a key several values, as in trainer.seed=1,2,3")
    sys.argv[1:] = hydra_arguments(swept, own, folder=folder, slurm=options.slurm, ranks=options.ranks)
    sweep(module, fixed, folder=folder, ranks=options.ranks, total=runs_of(swept), slurm=options.slurm)


if __name__ == "__main__":
    main(sys.argv[1:])
