"""How a command ends: exit code 0, or 1 or 2 and one line on stderr; never a traceback for what the user can change."""

import os
import sys
from collections.abc import Callable

from schedules.order import OrderError
from schedules.problem import ProblemError

_LONGEST_LINE = 600  # characters
_STOPPED = 130  # what shells give for a command stopped by Ctrl-C


def ending(run: Callable[[], int]) -> int:
    """Run a command to its exit code: 1 where an order is invalid, 2 where anything else that it was given is."""
    try:
        code = run()
        _flush()
        return code
    except BrokenPipeError:  # the reader, as `head`, has seen enough
        _drop_output()
        return 0
    except OrderError as error:
        return fail(str(error), code=1)
    except ProblemError as error:
        return fail(str(error), code=2)
    except OSError as error:
        place = "the output" if error.filename is None else os.fsdecode(error.filename)
        return fail(f"{place}: {error.strerror or error}", code=2)
    except ImportError as error:
        return fail(f"{error}; install the package, or choose a method or a format that does without", code=2)
    except MemoryError:
        return fail("the memory of this machine is too small; pose fewer micro-batches or ranks", code=2)
    except KeyboardInterrupt:
        return fail("stopped", code=_STOPPED)


def fail(text: str, *, code: int) -> int:
    """Print an error as one line and give the exit code."""
    if sys.stderr is not None:
        print(f"error: {one_line(text)}", file=sys.stderr)
    return code


def one_line(text: str) -> str:
    """A text as one line of a bearable length, with what a terminal would act on written out."""
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE // 2]} ... {line[-_LONGEST_LINE // 2 :]}"


def _flush() -> None:
    if sys.stdout is not None:  # closed by the shell's >&-
        sys.stdout.flush()


def _drop_output() -> None:
    """Send what stdout still holds nowhere, or the interpreter would try once more at exit and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
