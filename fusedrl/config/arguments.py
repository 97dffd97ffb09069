"""The arguments of the command line (Hydra overrides), before Hydra composes them."""

from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser

from fusedrl.config.errors import ConfigError, unknown_key
from fusedrl.config.keys import groups, walk


def for_command(overrides: Sequence[str], *, command: str) -> list[str]:
    """`experiment=NAME` of any command but ppo is looked up in its own folder: experiment/COMMAND=NAME."""
    own = "experiment=" if command == "ppo" else f"experiment/{command}="
    return [own + item.removeprefix("experiment=") if item.startswith("experiment=") else item for item in overrides]


def check_keys(overrides: Sequence[str], *, schema: type, folders: Sequence[Path]) -> None:
    """Tells all unknown keys among the arguments at once; Hydra would stop at the first.

    Raises ConfigError, or Hydra's OverrideParseException for an argument that cannot be read.
    """
    known = {key.name for key in walk(schema)} | {name for name, _ in groups(schema)}
    free = ("hydra.", *(f"{key.name}." for key in walk(schema) if key.open))
    names = [override.key_or_group for override in OverridesParser.create().parse_overrides(list(overrides))]
    unknown = [
        name for name in names if name not in known and not name.startswith(free) and not _is_group(name, folders)
    ]
    if unknown:
        choices = sorted({path.name for folder in folders for path in folder.iterdir() if path.is_dir()})
        raise ConfigError([unknown_key(name, schema=schema, choices=choices) for name in unknown])


def _is_group(name: str, folders: Sequence[Path]) -> bool:
    return any((folder / name.partition("@")[0]).is_dir() for folder in folders)
