from pathlib import Path

import pytest

from tests.launch.scripts import LAUNCH, run

SCRIPT = LAUNCH / "rank_env.sh"
MEET = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
SHOW = ["bash", "-c", 'echo "$RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE"; exit 7']


def slurm(node: str, *, tasks: str) -> dict[str, str]:
    return {
        "SLURM_STEP_NUM_TASKS": "9",
        "SLURM_PROCID": "5",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": node,
        "SLURM_STEP_TASKS_PER_NODE": tasks,
    }


@pytest.mark.parametrize(
    ("given", "place"),
    [
        (slurm("0", tasks="4(x2),1"), "5 9 1 4"),
        (slurm("1", tasks="4(x2),1"), "5 9 1 4"),
        (slurm("2", tasks="4(x2),1"), "5 9 1 1"),
        (slurm("1", tasks="2,3(x2),1"), "5 9 1 3"),
        (
            {
                "OMPI_COMM_WORLD_RANK": "3",
                "OMPI_COMM_WORLD_SIZE": "8",
                "OMPI_COMM_WORLD_LOCAL_RANK": "1",
                "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            },
            "3 8 1 2",
        ),
    ],
)
def test_the_place_is_the_launcher_s_and_the_code_the_command_s(
    tmp_path: Path, given: dict[str, str], place: str
) -> None:
    done = run(SCRIPT, *SHOW, cwd=tmp_path, environment=given | MEET)
    assert done.stdout.strip() == place
    assert done.returncode == 7


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "neither srun nor mpirun started this process"),
        (slurm("0", tasks="9"), "MASTER_ADDR is not set"),
        (slurm("0", tasks="9") | {"MASTER_ADDR": "a"}, "MASTER_PORT is not set"),
        (slurm("4", tasks="4(x2),1"), "node 4 has no entry in SLURM_STEP_TASKS_PER_NODE=4(x2),1"),
    ],
)
def test_what_is_missing_is_one_line(tmp_path: Path, given: dict[str, str], said: str) -> None:
    done = run(SCRIPT, *SHOW, cwd=tmp_path, environment=given)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"rank_env.sh: {said}")
