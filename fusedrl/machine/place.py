"""A process's place in its job, and who gave it: torchrun, or Slurm, Open MPI or Ray by way of launch/.

    RANK  WORLD_SIZE  LOCAL_RANK  LOCAL_WORLD_SIZE  MASTER_ADDR  MASTER_PORT     torch's names, set by torchrun
    SLURM_PROCID ... | OMPI_COMM_WORLD_RANK ...                                  of these launch/rank_env.sh makes them

Pure functions of the environment; no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from fusedrl.machine.finding import Finding, bad

NEEDED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LAUNCHER = "FUSEDRL_LAUNCHER"  # set by launch/ray_job.py, which leaves no other trace
# launcher -> (its count of processes, in a step of several; how to start them instead)
ADAPTED = {
    "srun": ("SLURM_STEP_NUM_TASKS", "srun ... bash launch/rank_env.sh python -m fusedrl...., or launch/slurm.sbatch"),
    "mpirun": ("OMPI_COMM_WORLD_SIZE", "bash launch/mpirun.sh"),
}


@dataclass(frozen=True)
class Place:
    """source: who started this process. master: HOST:PORT where ranks meet, empty for a process alone."""

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1
    source: str = "alone"
    master: str = ""

    @property
    def spans_nodes(self) -> bool:
        return self.local_world != self.world


def place_of(environment: Mapping[str, str]) -> Place:
    """Without RANK the process is alone. Raises ValueError where a number is none."""
    if "RANK" not in environment:
        return Place()
    world = _number(environment, "WORLD_SIZE", default="1")
    return Place(
        rank=_number(environment, "RANK"),
        world=world,
        local_rank=_number(environment, "LOCAL_RANK", default="0"),
        local_world=_number(environment, "LOCAL_WORLD_SIZE", default="1"),
        source=_source(environment),
        master=f"{environment.get('MASTER_ADDR', '')}:{environment.get('MASTER_PORT', '')}",
    )


def stranded(environment: Mapping[str, str]) -> str | None:
    """What to say where a launcher started several processes that do not know of each other: each would be a job."""
    if "RANK" in environment:
        return None
    for launcher, (count, instead) in ADAPTED.items():
        if environment.get(count, "1") != "1":
            return (
                f"{launcher} started {environment[count]} processes, but RANK is not set, so each would be a job of "
                f"its own; start them by {instead} (docs/launch.md)"
            )
    return None


def place_findings(environment: Mapping[str, str]) -> list[Finding]:
    """The place in one line; a second where it cannot be one."""
    if (problem := stranded(environment)) is not None:
        return [bad("ranks", problem, change="start by a script of launch/")]
    try:
        place = place_of(environment)
    except ValueError as error:
        return [bad("ranks", str(error), change="start by a script of launch/")]
    if place.source == "alone":
        return [Finding("ranks", "1 process, no launcher")]
    missing = [name for name in NEEDED if name not in environment]
    if missing:
        text = f"{place.source} set RANK, but not {', '.join(missing)}"
        return [bad("ranks", text, change="start by a script of launch/, or set them")]
    if not (place.rank < place.world and place.local_rank < place.local_world <= place.world):
        text = f"RANK {place.rank} of {place.world}, LOCAL_RANK {place.local_rank} of {place.local_world}: no such rank"
        return [bad("ranks", text, change="let one launcher set all of them")]
    here = f"rank {place.rank} of {place.world}, {place.local_rank} of {place.local_world} on this node"
    return [Finding("ranks", f"{here}, by {place.source}; they meet at {place.master}")]


def _source(environment: Mapping[str, str]) -> str:
    if "TORCHELASTIC_RUN_ID" in environment:
        return "torchrun"
    if LAUNCHER in environment:
        return environment[LAUNCHER]
    if "OMPI_COMM_WORLD_RANK" in environment:
        return "mpirun"
    return "Slurm" if "SLURM_STEP_NUM_TASKS" in environment else "the environment"


def _number(environment: Mapping[str, str], name: str, *, default: str | None = None) -> int:
    text = environment.get(name, default)
    if text is None or not text.isdecimal():
        raise ValueError(f"{name}={text}: a whole number is needed")
    return int(text)
