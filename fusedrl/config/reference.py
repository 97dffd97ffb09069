"""Writes docs/configuration.md from the schemas and the config files: `python -m fusedrl.config.reference [FILE]`."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import fusedrl
from fusedrl.config.help import choices, defaults
from fusedrl.config.keys import Key, groups, walk
from fusedrl.config.load import CONFIGS
from fusedrl.config.schema import SCHEMAS

PAGE = Path(next(iter(fusedrl.__path__))).parent / "docs" / "configuration.md"

INTRODUCTION = """\
# Configuration

Written by `python -m fusedrl.config.reference` from the schemas in `fusedrl/config/schema`: change these, not it.

    torchrun --nproc-per-node 4 -m fusedrl.ppo experiment=arithmetic trainer.seed=1

Every command composes its configuration with Hydra, later ones winning: the schema's defaults, `configs/COMMAND.yaml`,
a file of each group, the experiment, the arguments. `experiment=NAME` of `fusedrl.ppo` is
`configs/experiment/NAME.yaml`, of any other command `configs/experiment/COMMAND/NAME.yaml`. Files of your own go into
a folder of the same shape: `--config-dir DIR`. The whole configuration is printed by `--cfg job` and saved as
`config.yaml` in the folder of the run.

An unknown key, a value of the wrong type or off its limits, and sizes that do not divide (layers, heads, ranks,
batches) end the job with code 2 before any process group starts; `torchrun` reports that code and ends with 1 itself.
`python -m fusedrl.ppo --check --world 4 experiment=arithmetic` does the same checks without starting anything.

Names are verl's where it has one. One differs in meaning: **`ppo_mini_batch_size` counts samples**, verl's counts
prompts. A default such as `${critic.ppo_epochs}` follows that key. Sizes that follow from the keys are printed at the
start:

    samples per step = data.train_batch_size x rollout.n          mini-batches = samples / ppo_mini_batch_size
    dp = ranks / (tp x pp)                  micro-batches = ppo_mini_batch_size / dp / ppo_micro_batch_size_per_gpu

With `use_dynamic_bsz=true` their number follows from the samples' lengths (docs/pipeline.md); told is the most.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *(_command(command) for command in SCHEMAS)])


def _command(command: str) -> str:
    schema, values, helps = SCHEMAS[command], defaults(command), dict(groups(SCHEMAS[command]))
    by_parent: dict[str, list[Key]] = {}
    for key in walk(schema):
        by_parent.setdefault(key.name.rpartition(".")[0], []).append(key)
    sections = [_section(parent, helps[parent], keys, values=values) for parent, keys in by_parent.items()]
    return "\n".join([f"## fusedrl.{command}\n", _choices(command), *sections])


def _choices(command: str) -> str:
    rows = [
        f"| `{group}={name}` | {_first_comment(_file(group, name, command=command))} |"
        for group, names in choices(command).items()
        for name in names
    ]
    return "\n".join(["| files to choose from | |", "|---|---|", *rows, ""])


def _file(group: str, name: str, *, command: str) -> Path:
    folder = f"experiment/{command}" if group == "experiment" and command != "ppo" else group
    return CONFIGS / folder / f"{name}.yaml"


def _first_comment(path: Path) -> str:
    lines = [line.removeprefix("#").strip() for line in path.read_text().splitlines() if line.startswith("#")]
    return next(line for line in lines if not line.startswith("@package"))


def _section(parent: str, help: str, keys: Iterable[Key], *, values: Mapping[str, str]) -> str:
    head = [f"### {parent}\n", f"{help}.\n", "| key | type | default | limits | |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(_row(key, default=values[key.name]) for key in keys), ""])


def _row(key: Key, *, default: str) -> str:
    limits = key.limits.text().replace("|", "\\|")
    return f"| `{key.name.rpartition('.')[2]}` | {key.type_name} | `{default}` | {limits} | {key.help} |"


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page())
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
