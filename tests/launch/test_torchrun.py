import sys
from pathlib import Path

import pytest

from tests.launch.scripts import LAUNCH, program, python_of, run

SCRIPT = LAUNCH / "torchrun.sh"


def test_one_node_stands_alone_and_hands_every_argument_on_as_it_is(tmp_path: Path) -> None:
    environment = {**python_of(tmp_path / "bin"), "NPROC_PER_NODE": "4", "OMP_NUM_THREADS": "3"}
    done = run(SCRIPT, "fusedrl.ppo", "data={a: [b c]}", "x='$y *'", cwd=tmp_path, environment=environment)
    assert done.returncode == 0, done.stderr
    threads, *arguments = done.stdout.splitlines()
    assert threads == "OMP_NUM_THREADS=3"
    assert arguments[:5] == ["-m", "torch.distributed.run", "--nproc-per-node", "4", "--max-restarts"]
    assert "--standalone" in arguments
    assert arguments[-4:] == ["-m", "fusedrl.ppo", "data={a: [b c]}", "x='$y *'"]


def test_several_nodes_meet_at_the_first_or_by_rendezvous(tmp_path: Path) -> None:
    environment = {**python_of(tmp_path / "bin"), "NPROC_PER_NODE": "8", "NNODES": "2"}
    fixed = {"NODE_RANK": "1", "MASTER_ADDR": "10.0.0.1"}
    first = run(SCRIPT, "fusedrl.ppo", cwd=tmp_path, environment=environment | fixed).stdout
    given = ["--nnodes", "2", "--node-rank", "1", "--master-addr", "10.0.0.1", "--master-port", "29500"]
    assert "\n".join(given) in first
    second = run(SCRIPT, "--rdzv", "10.0.0.1:1234", "fusedrl.ppo", cwd=tmp_path, environment=environment).stdout
    given = ["--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "10.0.0.1:1234", "--rdzv-id", "fusedrl"]
    assert "\n".join(given) in second
    assert "--standalone" not in first + second


@pytest.mark.parametrize(("options", "found"), [("--signals-to-handle", True), ("--other", False)])
def test_signals_are_handed_on_where_this_torchrun_can(tmp_path: Path, options: str, found: bool) -> None:
    environment = {**python_of(tmp_path / "bin", options=options), "NPROC_PER_NODE": "1"}
    printed = run(SCRIPT, "fusedrl.ppo", cwd=tmp_path, environment=environment).stdout
    assert ("SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1" in printed) == found


def test_ranks_are_the_gpus_that_are_seen(tmp_path: Path) -> None:
    environment = python_of(tmp_path / "bin")
    program(tmp_path / "bin", "nvidia-smi", '#!/bin/sh\nprintf "GPU 0: H200\\nGPU 1: H200\\n"\n')
    for visible, ranks in (({}, "2"), ({"CUDA_VISIBLE_DEVICES": "4,5,7"}, "3")):
        printed = run(
            SCRIPT, "fusedrl.ppo", cwd=tmp_path, environment=environment | visible, programs=tmp_path / "bin"
        ).stdout
        assert f"--nproc-per-node\n{ranks}\n" in printed


@pytest.mark.parametrize(
    ("arguments", "given", "said"),
    [
        ([], {}, "the module to run is missing, as in: "),
        (["trainer.seed=1"], {}, "'trainer.seed=1' is no module"),
        (["fusedrl.ppo"], {"CUDA_VISIBLE_DEVICES": "-1"}, "NPROC_PER_NODE is not set and no GPU is seen"),
        (["fusedrl.ppo"], {"NNODES": "two"}, "NNODES=two: a whole number is needed"),
        (["fusedrl.ppo"], {"NPROC_PER_NODE": "1", "NNODES": "2"}, "MASTER_ADDR is not set"),
        (["fusedrl.ppo"], {"NPROC_PER_NODE": "1", "NNODES": "2", "MASTER_ADDR": "a"}, "NODE_RANK is not set"),
        (
            ["fusedrl.ppo"],
            {"NPROC_PER_NODE": "1", "NNODES": "2", "MASTER_ADDR": "a", "NODE_RANK": "2"},
            "NODE_RANK=2: NNODES=2 nodes are numbered from 0 to 1",
        ),
        (["--rdzv"], {}, "--rdzv: HOST:PORT of one node is missing"),
        (["--rdzv", "host", "fusedrl.ppo"], {}, "--rdzv host: a port is missing, as in host:29500"),
        (["fusedrl.ppo"], {"NPROC_PER_NODE": "1", "FUSEDRL_PYTHON": "/no/python"}, "no Python '/no/python'"),
    ],
)
def test_what_is_missing_is_one_line(tmp_path: Path, arguments: list[str], given: dict[str, str], said: str) -> None:
    done = run(SCRIPT, *arguments, cwd=tmp_path, environment=given)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"torchrun.sh: {said}")


@pytest.mark.parametrize("missing", ["torch", "megatron.core", "transformers"])
def test_an_environment_whose_set_up_was_not_finished_is_one_line(tmp_path: Path, missing: str) -> None:
    for name in {"torch", "megatron.core", "hydra", "transformers"} - {missing}:
        folder = tmp_path / "packages" / name.replace(".", "/")
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    text = f'#!/bin/sh\nPYTHONPATH={tmp_path}/packages exec {sys.executable} -S "$@"\n'  # -S: no site-packages
    python = program(tmp_path / "bin", "python", text)
    given = {"NPROC_PER_NODE": "1", "FUSEDRL_PYTHON": str(python)}
    done = run(SCRIPT, "fusedrl.ppo", cwd=tmp_path, environment=given)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line == f"torchrun.sh: {python} lacks torch or another package that ranks need: " + (
        "run launch/setup.sh, or set FUSEDRL_PYTHON"
    )
