"""A reward function of which the response decides what it does. Loaded by path in worker processes only."""

import ctypes
import os
import re
import subprocess
import sys
import threading
import time
from typing import Any

from fusedrl.rewards.wire import pack


def compute_score(data_source: str, solution_str: str, ground_truth: Any, extra_info: dict | None = None) -> Any:
    return ACTIONS[data_source](solution_str, extra_info or {})


def child(text: str, info: dict) -> float:
    """Start a process that would outlive us, tell its id in a file, and hang."""
    process = subprocess.Popen(["sleep", "600"])
    with open(text, "w") as file:
        file.write(f"{os.getpid()} {process.pid}")
    return spin(text, info)


def spin(text: str, info: dict) -> float:
    while True:
        time.sleep(0.01)


def stubborn(text: str, info: dict) -> float:
    """Swallow whatever is raised inside."""
    while True:
        try:
            time.sleep(1)
        except BaseException:
            continue


def locked(text: str, info: dict) -> bool:
    """Hold the interpreter lock, as runaway regular expressions do; tell our id in a file first."""
    if text:
        with open(text, "w") as file:
            file.write(str(os.getpid()))
    return re.match(r"(a+)+$", "a" * 60 + "b") is not None


def crash(text: str, info: dict) -> float:
    ctypes.string_at(0)
    return 0.0


def loud(text: str, info: dict) -> float:
    print("noise " * 10_000)
    return 1.0


def thread_at_exit(text: str, info: dict) -> float:
    threading.Thread(target=lambda: time.sleep(600)).start()
    return 1.0


def corrupt(text: str, info: dict) -> float:
    """Write nonsense to every pipe we can find."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, eval(text))
        except OSError:
            continue
    return spin(text, info)


def fork(text: str, info: dict) -> float:
    """Go on as two processes: this one scores, the other does what `info` says and comes out of here as well."""
    if os.fork():
        time.sleep(info.get("wait", 0.0))
        return float(text)
    {"return": lambda: None, "raise": lambda: {}[text], "exit": sys.exit}[info["child"]]()
    return 777.0


def forge(text: str, info: dict) -> float:
    """Write well-formed answers of our own to every pipe we can find."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"".join(map(pack, info["answers"])))
        except OSError:
            continue
    return float(text)


def recurse(text: str, info: dict) -> float:
    return recurse(text, info)


ACTIONS: dict[str, Any] = {
    "number": lambda text, info: float(text),
    "return": lambda text, info: eval(text),
    "sleep": lambda text, info: time.sleep(float(text)) or 1.0,
    "raise": lambda text, info: {}[text],
    "exit": lambda text, info: sys.exit(text),
    "die": lambda text, info: os._exit(int(text)),
    "length": lambda text, info: len(text),
    "info": lambda text, info: info["value"],
    "pid": lambda text, info: os.getpid(),
    "slow_pid": lambda text, info: time.sleep(0.2) or os.getpid(),
    "modules": lambda text, info: float(any(name in sys.modules for name in text.split())),
    "environment": lambda text, info: float(text in os.environ),
    **{f.__name__: f for f in (child, spin, stubborn, locked, crash, loud, thread_at_exit, corrupt, recurse)},
    **{f.__name__: f for f in (fork, forge)},
}
