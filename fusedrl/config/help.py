"""What --help prints: how to call a command, the groups of files to choose from, and every key with its default."""

from collections.abc import Mapping
from pathlib import Path

from fusedrl.config.keys import walk
from fusedrl.config.load import CONFIGS, compose, leaves
from fusedrl.config.schema import REQUIRED, SCHEMAS

NOT_CHOSEN = ("schedule", "experiment")  # problems for `python -m schedules`; experiments have a line of their own


def help_text(command: str) -> str:
    """The whole help of a command."""
    values = defaults(command)
    keys = [f"  {key.name}={values[key.name]}\n      {key.help}" for key in walk(SCHEMAS[command])]
    chosen = [f"  {group}={' | '.join(names)}" for group, names in choices(command).items()]
    return "\n".join([_usage(command), "", "Files to choose from:", *chosen, "", "Keys and defaults:", *keys])


def defaults(command: str) -> Mapping[str, str]:
    """Each key's default as text; a key that follows another shows that key, one that must be given says so."""
    composed = dict(leaves(compose(command), schema=SCHEMAS[command]))
    return {name: _text(value) for name, value in composed.items()}


def choices(command: str) -> dict[str, list[str]]:
    """Group of config files -> names in it, for one command (only ppo.yaml has groups besides data)."""
    folders = {"experiment": CONFIGS / "experiment"}
    if command == "ppo":
        folders |= {path.name: path for path in sorted(CONFIGS.iterdir()) if _has_choices(path)}
        folders |= {"algorithm/preset": CONFIGS / "algorithm/preset"}
    else:
        folders = {"experiment": folders["experiment"] / command, "data": CONFIGS / "data"}
    return {group: sorted(path.stem for path in folder.glob("*.yaml")) for group, folder in folders.items()}


def _has_choices(path: Path) -> bool:
    return path.is_dir() and path.name not in NOT_CHOSEN and any(path.glob("*.yaml"))


def _text(value: object) -> str:
    if value == REQUIRED:
        return "(required)"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value).replace(" ", "") if isinstance(value, list | dict) else str(value)


def _usage(command: str) -> str:
    return f"""\
torchrun --nproc-per-node N -m fusedrl.{command} [experiment=NAME] [key=value ...]

  --cfg job           print the whole configuration and stop
  --check [--world N] check it for N ranks and stop; nothing is started (exit code 2: there are problems)
  --config-dir DIR    config files of your own (DIR/experiment/NAME.yaml), beside those that come with fusedrl"""
