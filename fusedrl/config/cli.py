"""The start of every entry point: arguments -> a checked configuration, or a clear end before any process group exists.

    config = start("ppo", check=problems)      # problems(config, world) -> lines; world: ranks of the job

Ends with code 2 and all problems on stderr. Rank 0 speaks; the other ranks wait to be ended by the launcher, for a rank
that ends first would have torchrun kill rank 0 before it has spoken.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, overload

from fusedrl.config.errors import ConfigError
from fusedrl.config.help import help_text
from fusedrl.config.load import load, to_yaml
from fusedrl.config.numbers import counted
from fusedrl.config.schema import AnyConfig, EvaluateConfig, GenerateConfig, PPOConfig, RMConfig, SFTConfig
from fusedrl.machine.place import stranded

BAD_CONFIG = 2  # exit code
WAIT_S = 20.0  # of ranks other than 0, for the launcher to end them

Check = Callable[[Any, int], Sequence[str]]
Notes = Callable[[Any, int], Sequence[str]]


def _nothing(config: Any, world: int) -> Sequence[str]:
    return ()


@overload
def start(
    command: Literal["ppo"], *, check: Check, notes: Notes = ..., argv: Sequence[str] | None = None
) -> PPOConfig: ...
@overload
def start(
    command: Literal["sft"], *, check: Check, notes: Notes = ..., argv: Sequence[str] | None = None
) -> SFTConfig: ...
@overload
def start(
    command: Literal["reward_model"], *, check: Check, notes: Notes = ..., argv: Sequence[str] | None = None
) -> RMConfig: ...
@overload
def start(
    command: Literal["evaluate"], *, check: Check, notes: Notes = ..., argv: Sequence[str] | None = None
) -> EvaluateConfig: ...
@overload
def start(
    command: Literal["generate"], *, check: Check, notes: Notes = ..., argv: Sequence[str] | None = None
) -> GenerateConfig: ...


def start(command: str, *, check: Check, notes: Notes = _nothing, argv: Sequence[str] | None = None) -> AnyConfig:
    """The configuration that the command line asks for, checked. Ends the process for --help, --cfg, --check, problems.

    A ValueError or OSError of `check` (a model folder that cannot be read) counts as a problem. `notes`: lines that
    --check adds where there is none.
    """
    options, overrides = _parse(sys.argv[1:] if argv is None else argv)
    if options.help:
        _answer(help_text(command))
    if not options.check and (problem := stranded(os.environ)) is not None:
        stop(command, [problem])
    if options.world < 1:
        stop(command, [f"--world={options.world}: a job has at least 1 rank (the default is WORLD_SIZE, or 1)"])
    try:
        config = load(command, overrides, config_dir=options.config_dir)
        if options.cfg:
            _answer(to_yaml(config))
        problems = list(check(config, options.world))
    except ConfigError as error:
        problems = list(error.problems)
    except (ValueError, OSError) as error:
        problems = [str(error)]
    if problems:
        stop(command, problems)
    if options.check:
        fits = f"fusedrl.{command}: the configuration fits {counted(options.world, 'rank')}"
        _answer("\n".join([fits, *notes(config, options.world)]))
    return config


def stop(command: str, problems: Sequence[str]) -> NoReturn:
    """End this rank with exit code 2; rank 0 tells why."""
    if _rank() == 0:
        count = counted(len(problems), "problem")
        lines = [f"fusedrl.{command}: {count} in the configuration; nothing was started", *problems]
        print("\n  - ".join(lines), file=sys.stderr, flush=True)
    else:
        time.sleep(WAIT_S)
    sys.exit(BAD_CONFIG)


def _parse(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("-c", "--cfg", choices=["job"])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--world", type=int, default=os.environ.get("WORLD_SIZE", "1"))
    parser.add_argument("--config-dir", type=Path)
    return parser.parse_known_args(argv)


def _answer(text: str) -> NoReturn:
    if _rank() == 0:
        print(text, flush=True)
    sys.exit(0)


def _rank() -> int:
    return int(os.environ.get("RANK", "0"))
