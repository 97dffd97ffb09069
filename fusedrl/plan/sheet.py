"""Sheets of models, devices and clusters: YAML files in configs/plan/KIND/NAME.yaml, or a file of your own by its path.

Their values are read by type and by name, like a JSON object's; a key that nothing reads is an error.
"""

import difflib
from collections.abc import Collection
from pathlib import Path

import yaml

from fusedrl.config.load import CONFIGS
from fusedrl.data.json_object import JsonObject

SHEETS = CONFIGS / "plan"


def read_sheet(kind: str, name: str, *, key: str | None = None, also: str = "") -> JsonObject:
    """kind: model, device or cluster. Raises ValueError with the known names, or with the place in the file. key: that
    gave the name, where it is not the kind's; also: what else might have been meant."""
    path = Path(name) if name.endswith((".yaml", ".yml")) else SHEETS / kind / f"{name}.yaml"
    if not path.is_file():
        raise ValueError(f"{key or kind}={name}: there is no such sheet; {_near(name, known_sheets(kind))}{also}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    return JsonObject.of(values, where=str(path))


def known_sheets(kind: str) -> list[str]:
    """Names of the sheets that come with fusedrl."""
    return sorted(path.stem for path in (SHEETS / kind).glob("*.yaml"))


def check_keys(values: JsonObject, known: Collection[str]) -> None:
    """Raise ValueError for a key that nothing reads."""
    for key in values.values:
        if key not in known:
            raise ValueError(f"{values.where}: {key}: no such key; {_near(str(key), sorted(known))}")


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
