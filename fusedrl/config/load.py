"""Composes a command's configuration: schema, then configs/COMMAND.yaml, its groups, the experiment, the arguments.

    load("ppo", ["experiment=arithmetic", "trainer.seed=1"]) -> PPOConfig

Hydra's compose API is used, not its launcher: ranks must not each make an output folder or change directory. For every
command but ppo, `experiment=NAME` means configs/experiment/COMMAND/NAME.yaml. The result is frozen and fully typed.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, overload

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

import configs
from fusedrl.config.arguments import check_keys, for_command
from fusedrl.config.check_values import check_values
from fusedrl.config.errors import ConfigError, explain
from fusedrl.config.keys import walk
from fusedrl.config.schema import (
    REQUIRED,
    SCHEMAS,
    AnyConfig,
    EvaluateConfig,
    GenerateConfig,
    PPOConfig,
    RMConfig,
    SFTConfig,
)

CONFIGS = Path(next(iter(configs.__path__)))


@overload
def load(command: Literal["ppo"], overrides: Sequence[str] = (), *, config_dir: Path | None = None) -> PPOConfig: ...
@overload
def load(command: Literal["sft"], overrides: Sequence[str] = (), *, config_dir: Path | None = None) -> SFTConfig: ...
@overload
def load(
    command: Literal["reward_model"], overrides: Sequence[str] = (), *, config_dir: Path | None = None
) -> RMConfig: ...
@overload
def load(
    command: Literal["evaluate"], overrides: Sequence[str] = (), *, config_dir: Path | None = None
) -> EvaluateConfig: ...
@overload
def load(
    command: Literal["generate"], overrides: Sequence[str] = (), *, config_dir: Path | None = None
) -> GenerateConfig: ...
@overload
def load(command: str, overrides: Sequence[str] = (), *, config_dir: Path | None = None) -> AnyConfig: ...


def load(command: str, overrides: Sequence[str] = (), *, config_dir: Path | None = None) -> AnyConfig:
    """The typed configuration of `command`. `config_dir` holds config files of your own, found after ours.

    Raises ConfigError naming each wrong key, with the nearest valid one.
    """
    composed = compose(command, overrides, config_dir=config_dir)
    return to_typed(composed, schema=SCHEMAS[command])


def compose(command: str, overrides: Sequence[str] = (), *, config_dir: Path | None = None) -> DictConfig:
    """The composed configuration with its interpolations unresolved and missing values missing."""
    schema = SCHEMAS[command]
    if config_dir and not config_dir.is_dir():
        raise ConfigError([f"--config-dir {config_dir}: there is no such folder"])
    folders = [CONFIGS, *([config_dir.resolve()] if config_dir else [])]
    extra = [f"hydra.searchpath=[file://{config_dir.resolve()}]"] if config_dir else []
    _register_schemas()
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONFIGS), job_name=command):
            arguments = for_command(overrides, command=command)
            check_keys(arguments, schema=schema, folders=folders)
            return hydra.compose(command, [*arguments, *extra])
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise ConfigError([explain(error, schema=schema, folders=folders)]) from error


def to_typed(composed: DictConfig, *, schema: type[AnyConfig]) -> AnyConfig:
    """Frozen dataclasses; raises ConfigError for values that are missing or off their limits."""
    values = dict(leaves(composed, schema=schema))
    if missing := [name for name, value in values.items() if value == REQUIRED]:
        raise ConfigError([f"{name}: a value is needed: give {name}=VALUE" for name in missing])
    try:
        config = cast(AnyConfig, OmegaConf.to_object(composed))
    except OmegaConfBaseException as error:
        raise ConfigError([explain(error, schema=schema, folders=[CONFIGS])]) from error
    if problems := check_values(config):
        raise ConfigError(problems)
    return config


def to_yaml(config: AnyConfig) -> str:
    """The resolved configuration as YAML; `load` of its values gives an equal configuration."""
    return OmegaConf.to_yaml(OmegaConf.structured(config))


def from_yaml(text: str, *, schema: type[AnyConfig]) -> AnyConfig:
    """The inverse of `to_yaml`: reads the configuration that was saved with a run."""
    try:
        merged = OmegaConf.merge(_writable(schema), OmegaConf.create(text))
    except OmegaConfBaseException as error:
        raise ConfigError([explain(error, schema=schema, folders=[CONFIGS])]) from error
    return to_typed(cast(DictConfig, merged), schema=schema)


@cache
def _register_schemas() -> None:
    for command, schema in SCHEMAS.items():
        ConfigStore.instance().store(name=f"{command}_schema", node=_writable(schema))


def _writable(schema: type) -> DictConfig:
    """OmegaConf makes a frozen dataclass read-only; while composing, values may change and dicts take new keys."""
    node = OmegaConf.structured(schema)
    _thaw(node)
    return node


def _thaw(node: DictConfig) -> None:
    OmegaConf.set_readonly(node, None)
    if OmegaConf.get_type(node) is dict:
        OmegaConf.set_struct(node, False)
    for name in node:
        child = node._get_node(name)
        if isinstance(child, DictConfig):
            _thaw(child)


def leaves(node: DictConfig, *, schema: type) -> Iterator[tuple[str, object]]:
    """Dotted keys with their values as written: an interpolation's text, or ??? where a value is missing."""
    whole = {key.name for key in walk(schema) if key.open}

    def descend(values: dict[Any, Any], prefix: str) -> Iterator[tuple[str, object]]:
        for name, value in values.items():
            if isinstance(value, dict) and prefix + name not in whole:
                yield from descend(value, f"{prefix}{name}.")
            else:
                yield prefix + name, value

    return descend(cast(dict[Any, Any], OmegaConf.to_container(node, resolve=False)), "")
