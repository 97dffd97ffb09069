import pytest

from fusedrl.machine.place import NEEDED, Place, place_findings, place_of, stranded

TORCHRUN = dict(zip(NEEDED, ("5", "8", "1", "4", "10.0.0.1", "29500"), strict=True)) | {"TORCHELASTIC_RUN_ID": "x"}


def without(*names: str) -> dict[str, str]:
    return {name: value for name, value in TORCHRUN.items() if name not in names}


def test_a_process_without_launcher_is_alone() -> None:
    assert place_of({"SLURM_JOB_ID": "7", "MASTER_ADDR": "a"}) == Place()
    assert not Place().spans_nodes


@pytest.mark.parametrize(
    ("environment", "source"),
    [
        (TORCHRUN, "torchrun"),
        (TORCHRUN | {"SLURM_STEP_NUM_TASKS": "2", "OMPI_COMM_WORLD_RANK": "0"}, "torchrun"),
        (without("TORCHELASTIC_RUN_ID") | {"SLURM_STEP_NUM_TASKS": "8"}, "Slurm"),
        (without("TORCHELASTIC_RUN_ID") | {"OMPI_COMM_WORLD_RANK": "5", "SLURM_STEP_NUM_TASKS": "2"}, "mpirun"),
        (without("TORCHELASTIC_RUN_ID") | {"FUSEDRL_LAUNCHER": "Ray"}, "Ray"),
        (without("TORCHELASTIC_RUN_ID"), "the environment"),
    ],
)
def test_the_place_names_who_gave_it(environment: dict[str, str], source: str) -> None:
    place = place_of(environment)
    assert place == Place(5, 8, 1, 4, source, "10.0.0.1:29500")
    assert place.spans_nodes
    (found,) = place_findings(environment)
    assert found.text == f"rank 5 of 8, 1 of 4 on this node, by {source}; they meet at 10.0.0.1:29500"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}, "srun started 4 processes, but RANK is not set"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "mpirun started 2 processes, but RANK is not set"),
        (without("LOCAL_WORLD_SIZE", "MASTER_PORT"), "torchrun set RANK, but not LOCAL_WORLD_SIZE, MASTER_PORT"),
        (TORCHRUN | {"RANK": "8"}, "RANK 8 of 8, LOCAL_RANK 1 of 4: no such rank"),
        (TORCHRUN | {"LOCAL_RANK": "4"}, "RANK 5 of 8, LOCAL_RANK 4 of 4: no such rank"),
        (TORCHRUN | {"WORLD_SIZE": "two"}, "WORLD_SIZE=two: a whole number is needed"),
    ],
)
def test_places_that_cannot_be_are_told(environment: dict[str, str], said: str) -> None:
    (found,) = place_findings(environment)
    assert found.level == "bad"
    assert found.text.startswith(said)
    assert found.change


@pytest.mark.parametrize("environment", [{}, TORCHRUN, {"SLURM_STEP_NUM_TASKS": "1"}, {"OMPI_COMM_WORLD_SIZE": "1"}])
def test_single_processes_and_ranks_are_not_stranded(environment: dict[str, str]) -> None:
    assert stranded(environment) is None
