"""What the tests with real launchers share: a tiny SFT job, waiting, the environment of a user."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.launch.scripts import ROOT

OPT_IN = os.environ.get("FUSEDRL_TEST_LAUNCHERS")
PATIENCE_S = 900.0  # for what must come; no test measures time
opted_in = pytest.mark.skipif(OPT_IN is None, reason="real launchers: bash launch/test_launchers.sh")
BESIDE = Path(OPT_IN or "/nowhere") / "bin/python"  # an interpreter that has ray and submitit
TRAINS_ON = 100_000  # steps: it is stopped, and does not end by itself


def environment(**more: str) -> dict[str, str]:
    """A user's, with this interpreter for the ranks."""
    dropped = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"OMP_NUM_THREADS": "1", "FUSEDRL_PYTHON": sys.executable, "CI": "true"} | more


@contextmanager
def started(command: list[str], *, cwd: Path, given: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """What it prints goes to cwd/output.txt; killed at the end, upon which its ranks end, too."""
    with (cwd / "output.txt").open("a") as output:
        job = subprocess.Popen(command, cwd=cwd, env=dict(given), stdout=output, stderr=output)
    try:
        yield job
    finally:
        job.kill()
        job.wait()


def finish(command: list[str], *, cwd: Path, given: Mapping[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        command, cwd=cwd, env=dict(given), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def wait_for(condition: Callable[[], bool], *, told: Callable[[], str]) -> None:
    """Until it holds; fails with what `told` says after a long time."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, told()
        time.sleep(0.2)


def text_of(folder: Path, pattern: str) -> str:
    return "".join(path.read_text() for path in sorted(folder.glob(pattern)))


def sft_job(folder: Path, *, steps: int = TRAINS_ON) -> list[str]:
    """Arguments of fusedrl.sft on two ranks, whose run lies in folder/run."""
    from tests.fusedrl.trainers.test_checkpointing import one_model_arguments  # imports torch and Megatron-Core
    from tests.fusedrl.trainers.test_preflight import model

    model(folder / "start")
    arguments = one_model_arguments(folder, command="sft", run="run")
    return [*arguments, f"trainer.total_training_steps={steps}", "trainer.save_freq=-1"]


def steps_of(run: Path) -> list[int]:
    """Those whose rows are written."""
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.is_file() else []
    return [json.loads(line)["step"] for line in lines if line.endswith("}")]


def saved(run: Path) -> list[int]:
    return sorted(int(path.parent.parent.name.split("_")[-1]) for path in run.glob("checkpoints/*/state/manifest.json"))


def script(name: str) -> list[str]:
    return ["bash", str(ROOT / "launch" / name)]
