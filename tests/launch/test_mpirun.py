from pathlib import Path

import pytest

from tests.launch.scripts import LAUNCH, ROOT, program, python_of, run

SCRIPT = LAUNCH / "mpirun.sh"
MPIRUN = '#!/usr/bin/env bash\nprintf "%s\\n" "meet $MASTER_ADDR $MASTER_PORT" "$@"\nexit "${FAKE_CODE:-0}"\n'


def test_options_go_to_mpirun_and_the_rest_to_the_ranks(tmp_path: Path) -> None:
    program(tmp_path / "bin", "mpirun", MPIRUN)
    environment = python_of(tmp_path / "bin") | {"FAKE_CODE": "75", "MASTER_ADDR": "10.0.0.1"}
    arguments = ["-np", "4", "--hostfile", "my hosts", "--", "fusedrl.ppo", "a=[b, c]"]
    done = run(SCRIPT, *arguments, cwd=tmp_path, environment=environment, programs=tmp_path / "bin")
    assert done.returncode == 75
    lines = done.stdout.splitlines()
    assert lines[0] == "meet 10.0.0.1 29500"
    ranks = ["bash", f"{ROOT}/launch/rank_env.sh", environment["FUSEDRL_PYTHON"], "-m", "fusedrl.ppo", "a=[b, c]"]
    assert lines[-10:] == ["-np", "4", "--hostfile", "my hosts", *ranks]
    assert {"MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS", "PYTHONPATH"} <= set(lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-np", "4", "fusedrl.ppo"], "-- is missing between the options of mpirun and the module"),
        (["-np", "4", "--"], "the module to run is missing"),
        (["--", "fusedrl.ppo"], "the number of ranks is missing: -np N"),
        (["-np", "4", "--hostfile", "h", "--", "fusedrl.ppo"], "MASTER_ADDR is not set: the address of the first host"),
    ],
)
def test_what_is_missing_is_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = run(SCRIPT, *arguments, cwd=tmp_path, environment={})
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"mpirun.sh: {said}")
