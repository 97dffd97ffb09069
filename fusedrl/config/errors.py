"""One clear line for each thing wrong with a configuration, whoever found it: Hydra, OmegaConf or our own checks."""

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hydra.errors import ConfigCompositionException, MissingConfigException, OverrideParseException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    ConfigTypeError,
    InterpolationResolutionError,
    OmegaConfBaseException,
    ValidationError,
)
from yaml import YAMLError

from fusedrl.config.keys import suggest


class ConfigError(ValueError):
    """What is wrong with a configuration; `problems` holds one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        assert problems
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


def explain(error: Exception, *, schema: type, folders: Sequence[Path]) -> str:
    """One line for an exception of Hydra or OmegaConf, with the nearest valid key or file where there is one."""
    if isinstance(error, MissingConfigException):
        return _missing_file(error, folders)
    if isinstance(error, OverrideParseException):
        return f"cannot read the argument '{error.override}': write key=value, and quote values with special characters"
    if isinstance(error, YAMLError):
        return f"not valid YAML: {' '.join(str(error).split())}"
    for cause in _causes(error):
        if isinstance(cause, OmegaConfBaseException):
            return _where(error, folders) + _explain_key(cause, schema=schema)
    if match := re.match(r"Ambiguous value for argument '([^=']+)=(.*)'", str(error)):
        return f"{match[1]}={match[2]}: one value is needed; a list is written {match[1]}=[{match[2]}]"
    if match := re.match(r"Could not override '([^']+)'\. No match in the defaults list", str(error)):
        return f"{match[1]}: not a group of files to choose from; set the keys below it, {match[1]}.KEY=VALUE"
    return _first_line(error)


INSTEAD = {  # keys of verl that nothing here is named after
    "trainer.n_gpus_per_node": "ranks are the launcher's: torchrun --nproc-per-node N",
    "trainer.nnodes": "nodes are the launcher's: torchrun --nnodes N",
    "actor_rollout_ref.actor.strategy": "Megatron-Core is the only one; leave it out",
    "critic.strategy": "Megatron-Core is the only one; leave it out",
    "reward_model.reward_manager": "responses are scored one by one, by custom_reward_function; leave it out",
}


def unknown_key(key: str, *, schema: type, choices: Sequence[str] = ()) -> str:
    """The line for a key that the schema does not have. `choices`: groups of config files, valid as keys too."""
    if key in INSTEAD:
        return f"{key}: no such key; {INSTEAD[key]}"
    near_group = difflib.get_close_matches(key, choices, n=1, cutoff=0.75)
    near = near_group[0] if near_group else suggest(schema, key)
    return f"{key}: no such key; " + (f"did you mean {near}?" if near else "--help lists all keys")


def _explain_key(error: OmegaConfBaseException, *, schema: type) -> str:
    key = str(error.full_key)
    if isinstance(error, ConfigAttributeError | ConfigKeyError):
        return unknown_key(key, schema=schema)
    if isinstance(error, ConfigTypeError):
        return f"{key}: a key of the schema cannot be removed; set it to another value"
    if isinstance(error, InterpolationResolutionError):
        return f"{key}: {_first_line(error)}"
    if isinstance(error, ValidationError):
        return f"{key}: {_wrong_type(str(error.msg))}"
    return f"{key}: {_first_line(error)}"


def _wrong_type(message: str) -> str:
    wanted = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}
    match = re.match(r"Value '(.*)' of type '.*' could not be converted to (\w+)", message, flags=re.DOTALL)
    match = match or re.match(r"Value '(.*)' is not a valid (bool)", message, flags=re.DOTALL)
    if match:
        return f"{match[1]!r} is not {wanted.get(match[2], match[2])}"
    if "is not Optional" in message:
        return "null is not allowed here"
    if "is not a ListConfig" in message:
        return "a list is needed: write [a,b] or [a]"
    if "Invalid type assigned" in message:
        return "holds further keys and takes no value itself; set one of the keys below it"
    return message.splitlines()[0]


def _missing_file(error: MissingConfigException, folders: Sequence[Path]) -> str:
    group, _, name = str(error.missing_cfg_file).rpartition("/")
    options = sorted({path.stem for folder in folders for path in (folder / group).glob("*.yaml")})
    near = difflib.get_close_matches(name, options, n=1, cutoff=0.5)
    known = f"there are: {', '.join(options)}" if options else "there is none"
    return f"{group}={name}: no such file configs/{group}/{name}.yaml; {known}" + (
        f"; did you mean {group}={near[0]}?" if near else ""
    )


def _where(error: Exception, folders: Sequence[Path]) -> str:
    """The config file that holds the mistake ("/.../experiment/mine.yaml: "), or nothing for an argument."""
    match = re.match(r"In '([^']+)'", str(error)) if isinstance(error, ConfigCompositionException) else None
    if match is None:
        return ""
    files = [path for folder in folders if (path := folder / f"{match[1]}.yaml").is_file()]
    return f"{files[0] if files else match[1]}: "


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]
