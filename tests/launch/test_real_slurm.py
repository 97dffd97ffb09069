"""Jobs on a real Slurm of two nodes on this machine: ranks meet, a job is stopped, queued again and goes on, sweeps."""

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.launch.real import (
    BESIDE,
    PATIENCE_S,
    environment,
    finish,
    opted_in,
    saved,
    sft_job,
    steps_of,
    text_of,
    wait_for,
)
from tests.launch.scripts import LAUNCH, ROOT
from tests.launch.test_real_launchers import DOCTOR, free_port, met

CLUSTER = Path(__file__).with_name("slurm_cluster.sh")
DAEMONS = ("slurmctld", "slurmd", "munged", "sbatch")
absent = [name for name in DAEMONS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
pytestmark = [
    opted_in,
    pytest.mark.timeout(4 * PATIENCE_S),
    pytest.mark.skipif(bool(absent), reason=f"no {', '.join(absent)} (Debian: slurmctld slurmd slurm-client munge)"),
]
needs_submitit = pytest.mark.skipif(
    not BESIDE.exists()
    or subprocess.run([str(BESIDE), "-c", "import hydra_plugins.hydra_submitit_launcher"], check=False).returncode != 0,
    reason=f"no hydra-submitit-launcher in {BESIDE}",
)


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """The environment in which two nodes with four cores and two GPUs by name each answer."""
    folder = Path(tempfile.mkdtemp(prefix="fusedrl-slurm-"))  # munge wants a way to its socket that is open to all
    given = environment(SLURM_CONF=str(folder / "slurm.conf"), FUSEDRL_ROOT=str(ROOT))
    given["PATH"] += ":/usr/sbin"
    try:
        code, printed = finish(
            ["bash", str(CLUSTER), "start", str(folder), "2", "4", "2", free_port()], cwd=folder, given=given
        )
        assert code == 0, printed + text_of(folder, "*.log")
        yield given
        finish(["scancel", "--user", getpass.getuser()], cwd=folder, given=given)
        running = ["squeue", "--noheader"]
        wait_for(lambda: finish(running, cwd=folder, given=given)[1] == "", told=lambda: "jobs do not end")
    finally:
        finish(["bash", str(CLUSTER), "stop", str(folder)], cwd=folder, given=given)
        shutil.rmtree(folder, ignore_errors=True)


def sbatch(*arguments: str) -> list[str]:
    return ["sbatch", "--parsable", "--output", "job.txt", *arguments]


def test_ranks_of_two_nodes_meet(slurm: dict[str, str], tmp_path: Path) -> None:
    nodes = ["--wait", "--nodes", "2", "--gpus-per-node", "2", "--ntasks-per-node", "2"]
    code, printed = finish([*sbatch(*nodes), str(LAUNCH / "slurm.sbatch"), *DOCTOR], cwd=tmp_path, given=slurm)
    assert code == 0, printed + text_of(tmp_path, "job.txt")
    logs = tmp_path / "logs/slurm" / printed.strip()
    assert sorted(path.name for path in logs.iterdir()) == [f"rank_{rank}.log" for rank in range(4)]
    met((logs / "rank_0.log").read_text(), world=4, by="Slurm")


def test_tasks_without_a_place_are_not_a_job_each(slurm: dict[str, str], tmp_path: Path) -> None:
    command = [str(slurm["FUSEDRL_PYTHON"]), "-m", "fusedrl.sft", "experiment=arithmetic"]
    code, printed = finish(["srun", "--ntasks", "2", *command], cwd=tmp_path, given=slurm | {"PYTHONPATH": str(ROOT)})
    assert code == 2
    assert "srun started 2 processes, but RANK is not set" in printed
    assert not (tmp_path / "runs").exists()


def test_a_warned_job_saves_is_queued_again_and_goes_on(slurm: dict[str, str], tmp_path: Path) -> None:
    nodes, run = ["--nodes", "2", "--ntasks-per-node", "1"], tmp_path / "run"
    job_script = [str(LAUNCH / "slurm.sbatch"), "fusedrl.sft", *sft_job(tmp_path)]
    code, job = finish([*sbatch(*nodes), *job_script], cwd=tmp_path, given=slurm)
    assert code == 0, job
    job = job.strip()

    def told() -> str:
        return text_of(tmp_path, "job.txt") + text_of(tmp_path, f"logs/slurm/{job}/*.log")

    def asked(command: str) -> str:
        return finish(["scontrol", *command.split()], cwd=tmp_path, given=slurm)[1]

    wait_for(lambda: len(steps_of(run)) > 1, told=told)
    assert finish(["scancel", "--signal=USR1", job], cwd=tmp_path, given=slurm)[0] == 0
    wait_for(lambda: "JobState=PENDING" in asked(f"show job {job}"), told=told)
    (first,) = saved(run)
    assert f"SIGUSR1: stopped after step {first}" in told()
    assert "Restarts=1" in asked(f"show job {job}")
    asked(f"update JobId={job} StartTime=now")  # Slurm would wait for two minutes
    wait_for(lambda: steps_of(run)[-1] > first, told=told)
    finish(["scancel", job], cwd=tmp_path, given=slurm)
    assert steps_of(run)[:first] == list(range(1, first + 1))
    assert f"job {job}, start 2: 2 nodes x 1 ranks" in told()


@needs_submitit
def test_a_sweep_runs_each_combination_as_a_job_and_goes_on_where_it_stopped(
    slurm: dict[str, str], tmp_path: Path
) -> None:
    arguments = [each for each in sft_job(tmp_path, steps=2) if not each.startswith("optim.lr")]
    command = [str(BESIDE), str(LAUNCH / "sweep.py"), "--ranks", "2", "--folder", "sweep", "--slurm", "fusedrl.sft"]
    swept = ["optim.lr=1e-2,1e-3", "hydra.launcher.cpus_per_task=2", "hydra.launcher.mem_gb=null"]
    code, printed = finish([*command, *arguments, *swept], cwd=tmp_path, given=slurm)
    assert code == 0, printed + text_of(tmp_path, "sweep/.submitit/*/*.err")
    runs = [tmp_path / "sweep" / f"optim.lr={value}" for value in ("0.01", "0.001")]
    assert [steps_of(run) for run in runs] == [[1, 2], [1, 2]]
    written = [(run / "metrics.jsonl").read_text() for run in runs]
    assert written[0] != written[1]
    code, printed = finish([*command, *arguments, *swept], cwd=tmp_path, given=slurm)
    assert code == 0, printed
    assert [(run / "metrics.jsonl").read_text() for run in runs] == written


@needs_submitit
def test_a_sweep_of_bubbles_has_a_job_for_each_cell_and_ends_in_one_page(slurm: dict[str, str], tmp_path: Path) -> None:
    given = slurm | {"FUSEDRL_PYTHON": str(BESIDE)}
    command = ["bash", str(LAUNCH / "sweep_bubble.sh"), "--folder", "bubbles", "--slurm", "hydra.launcher.mem_gb=null"]
    cells = ["depth=2", "microbatches=2", "mix=fixed", "method=serial,greedy", "unit_ms=0.2", "repeats=2"]
    code, printed = finish([*command, *cells], cwd=tmp_path, given=given)
    assert code == 0, printed + text_of(tmp_path, "bubbles/.submitit/*/*.err")
    assert "cell 2/2" in printed
    table = (tmp_path / "bubbles/sweep.csv").read_text()
    assert len(table.splitlines()) == 1 + 2
    assert len(list((tmp_path / "bubbles/.submitit").glob("*"))) >= 1
    code, printed = finish([*command, *cells], cwd=tmp_path, given=given)
    assert code == 0, printed
    assert "2 cells, 2 of them kept from before" in printed
    assert (tmp_path / "bubbles/sweep.csv").read_text() == table
