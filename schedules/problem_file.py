"""Problem files: YAML to Problem and back. Strict: an unknown, missing or doubled key is an error that names it.

Numbers as in YAML 1.2: 1e3 is one, where PyYAML (YAML 1.1, which wants 1.0e+3) reads text.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from schedules.forms import shown
from schedules.problem import Model, Problem, ProblemError

_PROBLEM_KEYS = {"ranks": True, "comm": False, "memory_cap": False, "models": True}  # key -> required
_MODEL_KEYS = {
    "name": True,
    "placement": True,
    "microbatches": True,
    "forward": True,
    "backward": False,
    "backward_weight": False,
    "activation": False,
}


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, which keeps the last of doubled keys, made to refuse them."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            line = key.start_mark.line + 1
            if key.value in lines:
                raise ProblemError(f"line {line}: the key {shown(key.value)} stands already in line {lines[key.value]}")
            lines[key.value] = line
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+"), list("-+.0123456789")
)
_BROKEN = (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError)  # by odd tags and dates


def load_problem(path: str | Path) -> Problem:
    """Read a problem file. Errors are one line: the file, then the key."""
    try:
        data = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise ProblemError(f"{path}: {error.strerror or error}") from None
    except ProblemError as error:
        raise ProblemError(f"{path}: {error}") from None
    except RecursionError:
        raise ProblemError(f"{path}: not a problem: lists or mappings are nested too deeply") from None
    except _BROKEN as error:
        raise ProblemError(f"{path}: not YAML: {_first_line(error)}") from None
    if data is None:
        raise ProblemError(f"{path}: the file is empty; it should hold the keys {', '.join(_PROBLEM_KEYS)}")
    try:
        return problem_from_dict(data)
    except ProblemError as error:
        raise ProblemError(f"{path}: {error}") from None


def problem_from_dict(data: object) -> Problem:
    """Build a problem from parsed YAML, in any of the written forms."""
    fields = _fields(data, _PROBLEM_KEYS, place="problem")
    models = fields["models"]
    if not isinstance(models, (list, tuple)):
        raise ProblemError(f"models: expected a list, got {shown(models)}")
    fields["models"] = tuple(Model(**_fields(m, _MODEL_KEYS, place=f"models[{i}]")) for i, m in enumerate(models))
    return Problem(**fields)


def problem_text(problem: Problem) -> str:
    """The problem as a problem file writes it."""
    return yaml.safe_dump(problem.to_dict(), sort_keys=False, default_flow_style=None)


def save_problem(path: str | Path, *, problem: Problem) -> None:
    """Write a problem file."""
    Path(path).write_text(problem_text(problem), encoding="utf-8")


def _fields(data: object, keys: Mapping[str, bool], *, place: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise ProblemError(f"{place}: expected a mapping with the keys {', '.join(keys)}, got {type(data).__name__}")
    for key in data:
        if key not in keys:
            raise ProblemError(f"{place}: unknown key {shown(key)}; known are {', '.join(keys)}")
    for key, required in keys.items():
        if required and data.get(key) is None:
            raise ProblemError(f"{place}: the key {key!r} is missing")
    return {key: value for key, value in data.items() if value is not None}


def _first_line(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    return str(getattr(error, "problem", None) or error).splitlines()[0] + where
