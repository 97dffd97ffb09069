"""A command ends with its exit code and at most one line on stderr, whatever becomes of its output."""

import subprocess
import sys

import pytest

from schedules.ending import ending, one_line
from schedules.order import OrderError
from schedules.problem import ProblemError
from tests.schedules.published import FOLDER

COMMAND = f"{sys.executable} -m schedules"
EXP5 = FOLDER / "exp5.yaml"


def shell(command):
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def raising(error):
    def run():
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (OrderError("rank 0: odd"), 1, "rank 0: odd"),
        (ProblemError("ranks: odd"), 2, "ranks: odd"),
        (FileNotFoundError(2, "No such file or directory", "a/b"), 2, "a/b: No such file or directory"),
        (FileNotFoundError(2, "No such file or directory", b"a/\xff"), 2, "a/\\udcff: No such file or directory"),
        (OSError(28, "No space left on device"), 2, "the output: No space left on device"),
        (OSError("odd"), 2, "the output: odd"),
        (ModuleNotFoundError("No module named 'matplotlib'"), 2, "No module named 'matplotlib'; install the package, "
         "or choose a method or a format that does without"),
        (MemoryError(), 2, "the memory of this machine is too small; pose fewer micro-batches or ranks"),
        (KeyboardInterrupt(), 130, "stopped"),
        (OrderError("a\nb\x1b[31m"), 1, "a\\nb\\x1b[31m"),
    ],
)  # fmt: skip
def test_errors_of_the_user_are_one_line(capsys, error, code, line):
    assert ending(raising(error)) == code
    assert capsys.readouterr() == ("", f"error: {line}\n")


def test_errors_of_the_program_are_not_hidden():
    with pytest.raises(ValueError, match="a fault"):
        ending(raising(ValueError("a fault")))


def test_the_code_of_a_command_that_is_done_is_its_own(capsys):
    assert [ending(lambda: 0), ending(lambda: 3)] == [0, 3]
    assert capsys.readouterr() == ("", "")


def test_long_lines_keep_their_ends():
    line = one_line("begin " + "x" * 100_000 + " end")
    assert len(line) < 700
    assert line.startswith("begin x")
    assert line.endswith("x end")


def test_a_full_disk_is_one_line():
    for command in ("bounds", "solve --method greedy --placement v"):
        code, _, err = shell(f"{COMMAND} {command} {EXP5} > /dev/full")
        assert (code, err) == (2, "error: the output: No space left on device\n")


def test_a_closed_output_is_no_error():
    assert shell(f"{COMMAND} solve {EXP5} --method greedy >&-") == (0, "", "")


def test_a_closed_error_output_leaves_the_exit_code():
    assert shell(f"{COMMAND} bounds /nowhere 2>&-") == (2, "", "")
