"""Values of the command line: ranges that are checked where they are read, and errors of one line."""

import argparse
from collections.abc import Callable
from typing import NoReturn

_SHOWN = 60  # characters of a wrong value that an error repeats


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line on stderr; exit code 2. Its commands' parsers are the same."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {' '.join(message.split())} (see {self.prog} --help)\n")


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


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
