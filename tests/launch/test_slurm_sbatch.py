"""The job's script with stand-ins for srun and scontrol; a real Slurm runs it in test_real_slurm.py."""

import re
import socket
from pathlib import Path

import pytest

from tests.launch.scripts import LAUNCH, ROOT, program, python_of, run

SCRIPT = LAUNCH / "slurm.sbatch"
NODE = "NodeName=n7 Arch=x86_64 NodeAddr=10.1.2.3 NodeHostName=n7 Port=6818"
SCONTROL = f"""#!/usr/bin/env bash
case "$*" in
"show hostnames n[7-8]") printf "n7\\nn8\\n" ;;
"--oneliner show node n7") echo "{NODE}" ;;
requeue*) echo "REQUEUED $2" ;;
*) echo "unexpected: $*" >&2; exit 1 ;;
esac
"""
SRUN = '#!/usr/bin/env bash\nprintf "%s\\n" "meet $MASTER_ADDR $MASTER_PORT" "$@"\nexit "${FAKE_CODE:-0}"\n'


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """The environment of a job on two nodes with four GPUs each."""
    program(tmp_path / "bin", "scontrol", SCONTROL)
    program(tmp_path / "bin", "srun", SRUN)
    given = {
        "FUSEDRL_ROOT": str(ROOT),
        "SLURM_JOB_ID": "40123",
        "SLURM_JOB_NODELIST": "n[7-8]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_GPUS_ON_NODE": "4",
        "SLURM_CPUS_ON_NODE": "8",
    }
    return python_of(tmp_path / "bin") | given


def test_addresses_are_node_addresses_and_ranks_the_gpus(tmp_path: Path, job: dict[str, str]) -> None:
    done = run(SCRIPT, "fusedrl.ppo", "x=[1, 2]", cwd=tmp_path, environment=job, programs=tmp_path / "bin")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"meet 10\.1\.2\.3 2\d{4}", lines[1])
    assert {"--ntasks-per-node=4", "--ntasks=8", "--output=logs/slurm/40123/rank_%t.log"} <= set(lines)
    assert lines[-5:] == [f"{ROOT}/launch/rank_env.sh", job["FUSEDRL_PYTHON"], "-m", "fusedrl.ppo", "x=[1, 2]"]
    assert (tmp_path / "logs/slurm/40123").is_dir()


@pytest.mark.parametrize(("code", "requeued"), [("75", True), ("1", False), ("0", False), ("143", False)])
def test_a_run_that_was_stopped_and_saved_is_queued_again_and_no_other(
    tmp_path: Path, job: dict[str, str], code: str, requeued: bool
) -> None:
    done = run(SCRIPT, "fusedrl.ppo", cwd=tmp_path, environment=job | {"FAKE_CODE": code}, programs=tmp_path / "bin")
    assert done.returncode == int(code)
    assert ("REQUEUED 40123" in done.stdout) == requeued
    assert ("ended with code" in done.stderr) == (code not in ("0", "75"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"FUSEDRL_ROOT": "/nowhere"}, "/nowhere is not the checkout: call sbatch in its folder, or set FUSEDRL_ROOT"),
        ({"SLURM_JOB_ID": ""}, "this is a job's script: sbatch launch/slurm.sbatch MODULE"),
        ({"SLURM_GPUS_ON_NODE": ""}, "the number of ranks on a node is missing: sbatch --gpus-per-node N"),
        ({"SLURM_CPUS_ON_NODE": "2"}, "2 CPUs on a node for 4 ranks: sbatch --ntasks-per-node 4"),
    ],
)
def test_what_is_missing_is_one_line(tmp_path: Path, job: dict[str, str], given: dict[str, str], said: str) -> None:
    done = run(SCRIPT, "fusedrl.ppo", cwd=tmp_path, environment=job | given, programs=tmp_path / "bin")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"slurm.sbatch: {said}")


def test_a_node_without_an_address_is_told(tmp_path: Path, job: dict[str, str]) -> None:
    program(tmp_path / "bin", "scontrol", '#!/bin/sh\n[ "$2" = hostnames ] && echo n7 || echo "Node n7 not found"\n')
    done = run(SCRIPT, "fusedrl.ppo", cwd=tmp_path, environment=job, programs=tmp_path / "bin")
    assert done.returncode == 2
    assert done.stderr == "slurm_address.sh: scontrol show node n7 tells no NodeAddr\n"


def test_the_port_is_the_job_s_unless_somebody_listens_there(tmp_path: Path, job: dict[str, str]) -> None:
    with socket.socket() as listener:
        port = next(port for port in range(20000, 30000) if listener.connect_ex(("127.0.0.1", port)))
        given = job | {"SLURM_JOB_ID": str(port - 20000), "SLURM_JOB_NODELIST": "n[7-8]"}
        script = LAUNCH / "slurm_address.sh"
        done = run(script, cwd=tmp_path, environment=given, programs=tmp_path / "bin")
        assert done.stdout == f"10.1.2.3 {port}\n"
    with socket.create_server(("127.0.0.1", port)):
        done = run(script, cwd=tmp_path, environment=given, programs=tmp_path / "bin")
    address, chosen = done.stdout.split()
    assert address == "10.1.2.3"
    assert int(chosen) > port
