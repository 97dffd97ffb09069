"""Where a run's states lie, which of them is the last, and which may go.

    checkpoints/latest_checkpointed_iteration.txt     the step of the last whole state; written after it
    checkpoints/global_step_N/state/                  the state after step N, whole or absent
    checkpoints/global_step_N/{actor,critic}          Hugging Face folders, beside it

All states here belong to one course of training: those that do not are set aside when a run starts (set_aside).
"""

import shutil
from pathlib import Path

from fusedrl.checkpoint.atomic import write_file
from fusedrl.checkpoint.manifest import MANIFEST

POINTER = "latest_checkpointed_iteration.txt"
STATE = "state"
_STEP = "global_step_"


def step_folder(checkpoints: Path, step: int) -> Path:
    return checkpoints / f"{_STEP}{step}"


def state_folder(checkpoints: Path, step: int) -> Path:
    return step_folder(checkpoints, step) / STATE


def saved_steps(checkpoints: Path) -> list[int]:
    """Steps with a state, increasing; whether its files are good is not looked at."""
    numbers = [path.parent.parent.name.removeprefix(_STEP) for path in checkpoints.glob(f"{_STEP}*/{STATE}/{MANIFEST}")]
    return sorted(int(number) for number in numbers if number.isdigit())


def latest_step(checkpoints: Path) -> int | None:
    """What the pointer says; None without one. An unreadable pointer stands for the last state there is."""
    path = checkpoints / POINTER
    if not path.is_file():
        return None
    text = path.read_text(errors="replace").strip()
    return int(text) if text.isascii() and text.isdigit() else max(saved_steps(checkpoints), default=None)


def candidates(checkpoints: Path) -> list[int]:
    """Steps to resume from, the best first: the pointer's, then those before it."""
    latest = latest_step(checkpoints)
    if latest is None:
        return []
    return [latest, *(step for step in reversed(saved_steps(checkpoints)) if step < latest)]


def point_to(checkpoints: Path, step: int) -> None:
    write_file(checkpoints / POINTER, f"{step}\n")


def remove_old(checkpoints: Path, *, keep: int) -> None:
    """All but the last `keep` steps with a state, their Hugging Face folders included."""
    for step in saved_steps(checkpoints)[:-keep]:
        folder = step_folder(checkpoints, step)
        hidden = folder.with_name(f".{folder.name}.old")  # a kill midway leaves no folder that looks whole
        shutil.rmtree(hidden, ignore_errors=True)
        folder.rename(hidden)
        shutil.rmtree(hidden)


def remove_leftovers(checkpoints: Path) -> None:
    """What a killed run left beside its states."""
    for pattern in (f".{_STEP}*.old", f"{_STEP}*/.*.part", f"{_STEP}*/.*.old"):
        for path in checkpoints.glob(pattern):
            shutil.rmtree(path, ignore_errors=True)


def set_aside(checkpoints: Path, *, after: int, target: Path) -> list[int]:
    """Move states of later steps (with after=0 all, and the pointer) into `target`; the steps that were moved.

    Hugging Face folders stay: the run that starts may read its model there.
    """
    moved = [step for step in saved_steps(checkpoints) if step > after]
    pointer = checkpoints / POINTER
    if pointer.exists():
        if after:
            point_to(checkpoints, after)
        else:
            pointer.unlink()
    for step in moved:
        place = state_folder(target / checkpoints.name, step)
        place.parent.mkdir(parents=True)
        state_folder(checkpoints, step).rename(place)
    return moved
