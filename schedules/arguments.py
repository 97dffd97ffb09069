"""Values of the command line: ranges that are checked where they are read, and errors of one line."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from schedules.ending import one_line

_SHOWN = 60  # characters of a wrong value that an error repeats
_LARGEST_SEED = 10**9  # CP-SAT takes 31 bits; --jitter counts on from it
_LONGEST = 1e9  # seconds
_MOST_STEPS = 10**15
_MOST_WORKERS = 1024


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line on stderr; exit code 2. Its commands' parsers are the same."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {one_line(' '.join(message.split()))} (see {self.prog} --help)\n")


def whole(lowest: int, highest: int) -> Callable[[str], int]:
    """Reads a whole number between the two, both allowed."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:  # too many digits, too
            value = lowest - 1
        if not lowest <= value <= highest:
            raise argparse.ArgumentTypeError(f"expected a whole number from {lowest} to {highest}, got {_short(text)}")
        return value

    return read


def above_zero(highest: float) -> Callable[[str], float]:
    """Reads a number above 0, at most `highest`."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 < value <= highest:
            raise argparse.ArgumentTypeError(f"expected a number above 0, at most {highest:g}, got {_short(text)}")
        return value

    return read


def new_file(text: str) -> Path:
    """Reads the name of a file to write, checked before a search that would end with no place for it."""
    folder = os.path.dirname(text) or "."
    if os.path.isdir(text) or not os.path.basename(text):
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; name a file")
    if not os.path.isdir(folder):
        raise argparse.ArgumentTypeError(f"{text!r}: there is no folder {folder!r}; make it first")
    if not os.access(text if os.path.lexists(text) else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written; name another file")
    return Path(text)


def new_folder(text: str) -> Path:
    """Reads the name of a folder to fill, which need not be there."""
    if not text or (os.path.lexists(text) and not os.path.isdir(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder; name one, new or not")
    return Path(text)


def add_limits(command: argparse.ArgumentParser) -> None:
    """The options of a search."""
    command.add_argument("--time-limit", type=above_zero(_LONGEST), default=60.0, metavar="S", help="seconds (60)")
    command.add_argument(
        "--steps", type=whole(0, _MOST_STEPS), metavar="N", help="search steps: with --workers 1 reproducible"
    )
    command.add_argument(
        "--workers",
        type=whole(1, _MOST_WORKERS),
        default=1,
        metavar="N",
        help="searches side by side, or threads (1)",
    )
    command.add_argument("--seed", type=whole(0, _LARGEST_SEED), default=0, metavar="N")


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
