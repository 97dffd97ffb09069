"""A user's reward function: finding it, and reading what it returned. Both happen in a worker process only.

    def compute_score(data_source, solution_str, ground_truth, extra_info=None) -> float | dict with "score"

The signature and the keys (custom_reward_function.path, .name) are verl's; the arguments are passed by name.
"""

import importlib.util
import inspect
import math
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

KEY = "custom_reward_function"
ARGUMENTS = ("data_source", "solution_str", "ground_truth", "extra_info")
MODULE_NAME = "fusedrl_custom_reward_function"
VERIFIER = Path(__file__).with_name("reasoning_gym.py")  # the function of generated tasks, loaded as any other file
SCALARS = (bool, int, float, str)
ACCURACY = "acc"  # the entry that metrics and validation read
FLOAT32_MAX = (2 - 2**-23) * 2.0**127


class RewardFunctionError(ValueError):
    """The configured reward function cannot be used; the message names key, path, name and what was found."""


class InvalidScore(ValueError):
    """The reward function returned something that is no finite number."""


def check_file(path: str | Path) -> Path:
    """The absolute path of an existing Python file."""
    file = Path(path).expanduser().absolute()
    if not file.is_file():
        found = "a folder" if file.is_dir() else "nothing"
        raise RewardFunctionError(f"{KEY}.path={path}: {found} there; give a Python file")
    return file


def load_function(path: str | Path, *, name: str = "compute_score", key: str = f"{KEY}.name") -> Callable[..., Any]:
    """Import the file and return its function `name`, checked for the four arguments. key: that gives the name."""
    file = check_file(path)
    function = getattr(_import(file), name, None)
    if not callable(function):
        found = "no such name" if function is None else f"a {type(function).__name__}"
        raise RewardFunctionError(
            f"{key}={name}: {file} has {found}; it defines {', '.join(_functions()) or 'no function'}"
        )
    _check_signature(function, file=file, name=name, key=key)
    return function


def read_score(returned: Any) -> tuple[float, dict[str, Any]]:
    """(score, other entries) of a returned number, or of a dict with "score"; InvalidScore says what came instead.

    0.0 and False are scores. Of the other entries, plain numbers and strings are kept; "acc" must be a number as the
    score must, and comes as a float. Both become float32 later, so what that cannot hold is no number here.
    """
    extra: dict[str, Any] = {}
    if isinstance(returned, dict):
        if "score" not in returned:
            raise InvalidScore(f"returned a dict without 'score' (keys: {', '.join(map(str, returned)) or 'none'})")
        entries = {str(key): value for key, value in returned.items() if key != "score"}
        extra = {key: value for key, value in entries.items() if isinstance(value, SCALARS)}
        if ACCURACY in entries:
            extra[ACCURACY] = _number(entries[ACCURACY], what=f"returned {ACCURACY!r}:")
        returned = returned["score"]
    return _number(returned, what="returned"), extra


def fits_float32(value: float) -> bool:
    """Whether it is finite and stays so as a float32."""
    return abs(value) <= FLOAT32_MAX


def describe(error: BaseException) -> str:
    """One line: what was raised, and the innermost line of code."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {_short(error)}{place}"


def _number(value: Any, *, what: str) -> float:
    found = f"{what} {type(value).__name__} {_short(value)}"
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise InvalidScore(f"{found}, not a number")
    try:
        number = float(value)
    except Exception as error:
        raise InvalidScore(f"{found}: {error}") from error
    if not math.isfinite(number):
        raise InvalidScore(f"{what} {number}")
    if not fits_float32(number):
        raise InvalidScore(f"{what} {number}, beyond the range of float32 (largest {FLOAT32_MAX:.7g})")
    return number


def _import(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(MODULE_NAME, file)
    if spec is None or spec.loader is None:
        raise RewardFunctionError(
            f"{KEY}.path={file}: not a Python file (its name ends in {file.suffix or 'nothing'!r})"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module  # dataclasses and pickling inside the file look themselves up here
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # helpers beside the file; last, so that they hide no installed package
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        raise RewardFunctionError(f"{KEY}.path={file}: importing it raised {describe(error)}") from error
    return module


def _functions() -> list[str]:
    """Names of the functions that the loaded file defines itself."""
    entries = vars(sys.modules[MODULE_NAME]).items()
    return [name for name, value in entries if inspect.isfunction(value) and value.__module__ == MODULE_NAME]


def _check_signature(function: Callable[..., Any], *, file: Path, name: str, key: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins tell no signature: the first call will
        return
    try:
        signature.bind(**dict.fromkeys(ARGUMENTS))
    except TypeError as error:
        wanted = f"{name}({', '.join(ARGUMENTS[:3])}, extra_info=None)"
        raise RewardFunctionError(
            f"{key}={name}: {file} defines {name}{signature}, which cannot be called as {wanted}: {error}"
        ) from error


def _short(value: Any) -> str:
    try:
        text = str(value) if isinstance(value, BaseException) else repr(value)
    except Exception as error:
        text = f"(unprintable: {type(error).__name__})"
    text = " ".join(text.split())
    return text if len(text) <= 300 else text[:300] + "..."
