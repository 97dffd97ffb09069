"""Ranks meet, and are stopped and go on, under the launchers themselves: torchrun, Open MPI, Ray."""

import json
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.launch.real import (
    BESIDE,
    PATIENCE_S,
    environment,
    finish,
    opted_in,
    saved,
    script,
    sft_job,
    started,
    steps_of,
    text_of,
    wait_for,
)
from tests.launch.scripts import ROOT

pytestmark = [opted_in, pytest.mark.timeout(3 * PATIENCE_S)]
needs_mpi = pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun (Debian: openmpi-bin)")
needs_ray = pytest.mark.skipif(
    not BESIDE.exists() or subprocess.run([str(BESIDE), "-c", "import ray"], check=False).returncode != 0,
    reason=f"no ray in {BESIDE}",
)
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
DOCTOR = ["fusedrl.doctor", "--ranks", "--json", "--timeout", "200"]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def met(printed: str, *, world: int, by: str) -> None:
    line = next(line for line in printed.splitlines() if '"ranks":' in line)
    told = json.loads(line[line.index("{") :])
    findings = [each for rank in told["ranks"] for each in rank["findings"]]
    assert told["ok"], findings
    assert [rank["rank"] for rank in told["ranks"]] == list(range(world))
    assert findings[0]["text"].startswith(f"rank 0 of {world}")
    assert f"by {by};" in findings[0]["text"]
    assert any(each["topic"] == "meeting" for each in findings)


def test_torchrun_on_one_node(tmp_path: Path) -> None:
    code, printed = finish([*script("torchrun.sh"), *DOCTOR], cwd=tmp_path, given=environment(NPROC_PER_NODE="2"))
    assert code == 0, printed
    met(printed, world=2, by="torchrun")


@pytest.mark.parametrize("rendezvous", [False, True])
def test_torchrun_on_two_nodes(tmp_path: Path, rendezvous: bool) -> None:
    port, common = free_port(), {"NPROC_PER_NODE": "1", "NNODES": "2"}
    meet = ["--rdzv", f"127.0.0.1:{port}"] if rendezvous else []
    fixed = {} if rendezvous else {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    with ExitStack() as nodes:
        both = []
        for node in range(2):
            (tmp_path / str(node)).mkdir()
            given = environment(**common, **fixed, **({} if rendezvous else {"NODE_RANK": str(node)}))
            command = [*script("torchrun.sh"), *meet, *DOCTOR]
            both.append(nodes.enter_context(started(command, cwd=tmp_path / str(node), given=given)))
        assert [node.wait(PATIENCE_S) for node in both] == [0, 0], text_of(tmp_path, "*/output.txt")
    met(text_of(tmp_path, "*/output.txt"), world=2, by="torchrun")


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_torchrun_hands_signals_on_and_the_same_command_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    command, run = [*script("torchrun.sh"), "fusedrl.sft", *sft_job(tmp_path)], tmp_path / "run"
    with started(command, cwd=tmp_path, given=environment(NPROC_PER_NODE="2")) as job:
        wait_for(lambda: len(steps_of(run)) > 1, told=lambda: text_of(tmp_path, "output.txt"))
        job.send_signal(number)
        assert job.wait(PATIENCE_S) != 0
    printed = text_of(tmp_path, "output.txt")
    (last,) = saved(run)
    assert f"fusedrl.sft: {number.name}: stopped after step {last}" in printed
    assert steps_of(run)[-1] == last
    ending = [*command, f"trainer.total_training_steps={last + 1}"]
    code, printed = finish(ending, cwd=tmp_path, given=environment(NPROC_PER_NODE="2"))
    assert code == 0, printed
    assert steps_of(run) == list(range(1, last + 2))


@needs_mpi
def test_open_mpi(tmp_path: Path) -> None:
    command = [*script("mpirun.sh"), "--oversubscribe", "-np", "2", "--", *DOCTOR]
    code, printed = finish(command, cwd=tmp_path, given=environment(MASTER_PORT=free_port(), **AS_ROOT))
    assert code == 0, printed
    met(printed, world=2, by="mpirun")


@needs_mpi
def test_open_mpi_hands_on_the_signal_and_the_code(tmp_path: Path) -> None:
    command = [*script("mpirun.sh"), "--oversubscribe", "-np", "2", "--", "fusedrl.sft", *sft_job(tmp_path)]
    with started(command, cwd=tmp_path, given=environment(MASTER_PORT=free_port(), **AS_ROOT)) as job:
        wait_for(lambda: len(steps_of(tmp_path / "run")) > 1, told=lambda: text_of(tmp_path, "output.txt"))
        job.send_signal(signal.SIGUSR1)
        assert job.wait(PATIENCE_S) == 75, text_of(tmp_path, "output.txt")
    assert saved(tmp_path / "run") == [steps_of(tmp_path / "run")[-1]]


@pytest.fixture(scope="module")
def ray_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of this machine with four cores by name; it ends with the process that started it."""
    ray, port = str(BESIDE.parent / "ray"), free_port()
    folder = tmp_path_factory.mktemp("ray")
    place = ["--head", "--num-cpus", "4", "--port", port, "--include-dashboard=false", "--temp-dir", f"/tmp/r{port}"]
    with started([ray, "start", "--block", *place], cwd=folder, given=environment(RAY_USAGE_STATS_ENABLED="0")) as head:
        wait_for(
            lambda: "Ray runtime started" in text_of(folder, "output.txt") or head.poll() is not None,
            told=lambda: text_of(folder, "output.txt"),
        )
        assert head.poll() is None, text_of(folder, "output.txt")
        yield f"127.0.0.1:{port}"
        head.terminate()  # upon which it ends the others
        head.wait()
    shutil.rmtree(f"/tmp/r{port}", ignore_errors=True)


def ray_command(address: str, *arguments: str) -> list[str]:
    return [str(BESIDE), str(ROOT / "launch/ray_job.py"), "--address", address, "--ranks", "2", *arguments]


@needs_ray
def test_ray(tmp_path: Path, ray_address: str) -> None:
    code, printed = finish(ray_command(ray_address, *DOCTOR), cwd=tmp_path, given=environment())
    assert code == 0, printed
    met(printed, world=2, by="Ray")
    code, printed = finish(ray_command(ray_address, "fusedrl.absent"), cwd=tmp_path, given=environment())
    assert code == 1
    assert "No module named fusedrl.absent" in printed


@needs_ray
def test_ray_hands_on_the_signal_and_the_code(tmp_path: Path, ray_address: str) -> None:
    command = ray_command(ray_address, "fusedrl.sft", *sft_job(tmp_path))
    with started(command, cwd=tmp_path, given=environment()) as job:
        wait_for(lambda: len(steps_of(tmp_path / "run")) > 1, told=lambda: text_of(tmp_path, "output.txt"))
        job.send_signal(signal.SIGUSR1)
        assert job.wait(PATIENCE_S) == 75, text_of(tmp_path, "output.txt")
    assert saved(tmp_path / "run") == [steps_of(tmp_path / "run")[-1]]
