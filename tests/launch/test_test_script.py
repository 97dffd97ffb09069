"""launch/test.sh's own arguments; the suite under another interpreter is run by hand (docs/results.md)."""

import subprocess

from tests.launch.scripts import LAUNCH


def test_an_interpreter_that_is_not_named_is_asked_for() -> None:
    ended = subprocess.run(["bash", LAUNCH / "test.sh", "--python"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert ended.stderr == "test: --python needs an interpreter, such as python3.12\n"


def test_an_interpreter_that_is_not_there_is_named() -> None:
    command = ["bash", LAUNCH / "test.sh", "--python", "python3.99"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "no Python 3.10 to 3.13 found (tried python3.99)" in ended.stderr
