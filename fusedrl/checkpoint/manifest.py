"""manifest.json of a saved state: what it is of, the plain values, and each file's size and checksum.

It is written last into the folder and carries a checksum of its own: a folder with a good manifest was whole once, and
files that were cut or changed since are found before anything is loaded.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fusedrl.checkpoint.atomic import write_file
from fusedrl.checkpoint.tensor_file import Written, look_at

MANIFEST = "manifest.json"
VERSION = 1


class DamagedCheckpoint(ValueError):
    """A file of a checkpoint that is missing, cut short or altered; the message names it."""


@dataclass(frozen=True)
class Manifest:
    """step: last step that is in it. values: what is not a tensor, JSON's types."""

    command: str
    step: int
    world: int
    values: Mapping[str, Any]
    files: Mapping[str, Written]

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.files.values())


def write_manifest(folder: Path, manifest: Manifest) -> None:
    content = {"version": VERSION, **asdict(manifest)}
    write_file(folder / MANIFEST, json.dumps({**content, "sha256": _digest(content)}, indent=2) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """Raises DamagedCheckpoint."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text())
        told = content.pop("sha256")
    except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
        raise DamagedCheckpoint(f"{path}: missing or cut short ({type(error).__name__})") from error
    if told != _digest(content):
        raise DamagedCheckpoint(f"{path}: its content does not match its checksum: it was altered")
    if content.pop("version") != VERSION:
        raise DamagedCheckpoint(f"{path}: written by another version of fusedrl, which this one cannot read")
    content["files"] = {name: Written(**each) for name, each in content["files"].items()}
    return Manifest(**content)


def damage(folder: Path, manifest: Manifest, *, part: int = 0, parts: int = 1) -> Iterator[str]:
    """A line for each of the files that is not as it was written; `part` of `parts` shares the work of reading."""
    for name, wanted in list(manifest.files.items())[part::parts]:
        path = folder / name
        size = path.stat().st_size if path.is_file() else None
        if size is None:
            yield f"{path}: missing"
        elif size != wanted.bytes:
            yield f"{path}: {size} bytes, {wanted.bytes} were written"
        elif look_at(path) != wanted:
            yield f"{path}: its content does not match its checksum: it was altered"


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
