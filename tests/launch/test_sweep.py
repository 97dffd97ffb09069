"""What is swept and how a run is started; Hydra runs each combination here, Slurm in test_real_slurm.py."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fusedrl.config.load import load
from tests.launch.scripts import ROOT, module_of, program

sweep = module_of("sweep.py")
ARGUMENTS = [
    "experiment=one",
    "data={a: [1, 2]}",
    "trainer.seed=1,2",
    "x.y=range(1,3)",
    "hydra.launcher.mem_gb=4",
]


def test_values_with_commas_are_swept_and_lists_are_not() -> None:
    fixed, swept, own = sweep.sorted_out(ARGUMENTS)
    assert fixed == ["experiment=one", "data={a: [1, 2]}"]
    assert swept == ["trainer.seed=1,2", "x.y=range(1,3)"]
    assert own == ["hydra.launcher.mem_gb=4"]


def test_a_run_is_torchrun_in_a_folder_named_by_its_values() -> None:
    command = sweep.command_of("fusedrl.ppo", ["a=b c"], ["p=x/y", "q=2"], folder=Path("/runs"))
    assert command[1:] == [
        str(ROOT / "launch/torchrun.sh"),
        "fusedrl.ppo",
        "a=b c",
        "p=x/y",
        "q=2",
        "trainer.default_local_dir='/runs/p=x_y,q=2'",
    ]


def test_the_command_takes_any_folder_s_name(tmp_path: Path) -> None:
    chosen, folder = ["a='x,y'", "trainer.seed=2"], tmp_path / "it's \\ here"
    place = sweep.command_of("fusedrl.ppo", [], chosen, folder=folder)[-1]
    config = load("ppo", ["experiment=arithmetic", place])
    assert config.trainer.default_local_dir == f"{folder}/a='x,y',trainer.seed=2"


def test_own_arguments_come_after_the_defaults_of_slurm() -> None:
    found = sweep.hydra_arguments(
        ["s=1,2", "+t=3,4"], ["hydra.launcher.cpus_per_task=9"], folder=Path("/f"), slurm=True, ranks=4
    )
    assert found.index("hydra.launcher.cpus_per_task=4") < found.index("hydra.launcher.cpus_per_task=9")
    assert found[-2:] == ["+s=1,2", "+t=3,4"]
    assert "hydra/launcher=submitit_slurm" in found
    assert "hydra/launcher=submitit_slurm" not in sweep.hydra_arguments([], [], folder=Path("/f"), slurm=False, ranks=4)


IN_ANOTHER_PROCESS = """
import sys
from tests.launch.scripts import module_of

sweep, (_, echo) = module_of("sweep.py"), sys.argv
sweep.command_of = lambda module, fixed, chosen, folder: [echo, module, *fixed, *chosen]
sys.argv = ["sweep.py"]
sweep.main(["--ranks", "3", "--folder", "all", "fusedrl.ppo", "a=b", "s=1,2", "t=x"])
"""


def test_every_combination_runs_and_a_failed_one_is_told(tmp_path: Path) -> None:
    """Hydra sets up the logging of a process for good."""
    echo = program(
        tmp_path, "echo.sh", '#!/bin/sh\necho "$NPROC_PER_NODE $*" >> calls.txt\ncase "$*" in *s=2*) exit 3 ;; esac\n'
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", IN_ANOTHER_PROCESS, str(echo)]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    calls = (tmp_path / "calls.txt").read_text().splitlines()
    assert calls == [f"3 fusedrl.ppo a=b t=x s={s}" for s in (1, 2)]
    assert "s=2 ended with code 3" in ended.stderr
    assert re.search(r"^sweep.py: run 1/2 ended in [\d.]+ min, [\d.]+ min left: s=1$", ended.stderr, re.MULTILINE)


def test_runs_are_counted_and_the_time_left_goes_by_those_that_ended() -> None:
    assert sweep.runs_of(["a=1,2,3", "+b=range(0,4)"]) == 12
    line = sweep.told(2, 5, name="a=1", seconds=90.0, since=240.0)
    assert line == "sweep.py: run 2/5 ended in 1.5 min, 6.0 min left: a=1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ranks", "0", "fusedrl.ppo"], "--ranks 0: at least 1 is needed"),
        (["--ranks", "2", "s=1,2"], "the module to run is missing"),
        (["--ranks", "2", "fusedrl.ppo", "s=1"], "nothing to sweep: give a key several values"),
        (["--ranks", "2", "fusedrl.ppo", "s"], "s: "),
    ],
)
def test_what_is_missing_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    with pytest.raises(SystemExit) as ended:
        sweep.main(arguments)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"sweep.py: {said}")
