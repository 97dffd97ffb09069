"""Which saved state a run goes on from: every file is checked first, all ranks share the reading and agree.

last_good   the pointer's state, or where that is damaged the one before, and so on, each told loudly
exactly     one that the user names, or an error
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fusedrl.checkpoint.folder import STATE, candidates, state_folder
from fusedrl.checkpoint.manifest import DamagedCheckpoint, Manifest, damage, read_manifest
from fusedrl.parallel.comm import all_gather_object, broadcast_object
from fusedrl.parallel.team import current


@dataclass(frozen=True)
class Saved:
    """A state on the disk."""

    folder: Path
    manifest: Manifest

    @property
    def step(self) -> int:
        return self.manifest.step


def last_good(checkpoints: Path, *, say: Callable[[str], None]) -> Saved | None:
    """None where nothing was saved. Raises DamagedCheckpoint where no state is good. A collective of all ranks."""
    steps, told = broadcast_object(candidates(checkpoints)), []
    for step in steps:
        found = state_folder(checkpoints, step)
        problem = _problem(found)
        if problem is None:
            return Saved(found, read_manifest(found))
        told.append(problem)
        say(f"DAMAGED CHECKPOINT: {problem}; the one before step {step} is tried")
    if told:
        raise DamagedCheckpoint(f"no state in {checkpoints} is good: {'; '.join(told)}")
    return None


def exactly(path: Path) -> Saved:
    """The state of a global_step_N folder. Raises DamagedCheckpoint. A collective of all ranks."""
    folder = state_of(path)
    problem = _problem(folder)
    if problem is not None:
        raise DamagedCheckpoint(problem)
    return Saved(folder, read_manifest(folder))


def state_of(path: Path) -> Path:
    """The state folder that a path of a user's means: global_step_N, or its state."""
    return path if path.name == STATE else path / STATE


def _problem(folder: Path) -> str | None:
    """The first thing wrong with a state, the same on every rank."""
    try:
        part, parts = current().place(), current().size
        mine = next(damage(folder, read_manifest(folder), part=part, parts=parts), None)
    except DamagedCheckpoint as error:
        mine = str(error)
    return next((each for each in all_gather_object(mine) if each is not None), None)
