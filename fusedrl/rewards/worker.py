"""The worker process: `python -m fusedrl.rewards.worker IN OUT SOURCE LIMIT`, started by process.py.

IN carries chunks of numbered samples, OUT one answer per sample, with its number, as soon as there is one, so that the
parent knows at every moment which sample is being worked on. It imports neither torch nor megatron and is ready in a
fraction of a second.

A scheduler's signals to all processes of a job (SIGUSR1, SIGTERM) are the trainer's business: it ends its step first,
for which it needs scores. A worker that must go is killed.

It ends with its parent, whatever the user's code is doing. A thread that reads IN kills the whole process group at end
of file, children of the user's code included. Where that code holds the interpreter lock (a runaway regular expression)
no thread runs: a timer of faulthandler's, in C, ends the process some limits later.
"""

import faulthandler
import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from fusedrl.rewards.function import ARGUMENTS, InvalidScore, RewardFunctionError, describe, read_score
from fusedrl.rewards.source import Source
from fusedrl.rewards.wire import pack, unpacker

READ_SIZE = 1 << 16
Chunks = queue.SimpleQueue[list[Any]]
_PID = os.getpid()


def main(arguments: list[str]) -> None:
    requests_fd, answers_fd, source, limit = arguments
    incoming, outgoing = int(requests_fd), int(answers_fd)
    for descriptor in (incoming, outgoing):
        os.set_inheritable(descriptor, False)  # a child of the user's code must not hold the pipes open
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)  # SIG_IGN would pass to programs that the user's code starts
    chunks: Chunks = queue.SimpleQueue()
    threading.Thread(target=_read, args=(incoming, chunks), daemon=True).start()
    try:
        function = Source.of_text(source).load(limit=float(limit))
    except RewardFunctionError as error:
        _end_if_forked()
        _write(outgoing, ["unusable", str(error)])
        return
    _end_if_forked()
    _write(outgoing, ["ready", ""])
    watchdog = Watchdog(float(limit))
    while True:
        chunk = chunks.get()
        for number, sample in chunk:
            watchdog.renew()
            answered = answer(function, sample)
            _end_if_forked()
            _write(outgoing, [number, *answered])
        watchdog.rest()


class Watchdog:
    """Ends the process when `renew` was not called for two to three limits; the parent kills it after one."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._renewed = -math.inf
        self._quiet = open(os.devnull, "w")  # noqa: SIM115 - lives as long as the process

    def renew(self) -> None:
        now = time.monotonic()
        if now - self._renewed > self._limit:  # arming starts a thread: not for each of thousands of samples a second
            faulthandler.dump_traceback_later(3 * self._limit, exit=True, file=self._quiet)
            self._renewed = now

    def rest(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._renewed = -math.inf


def answer(function: Callable[..., Any], sample: list[Any]) -> list[Any]:
    """[status, score, detail, extra] of one sample, given as the values of ARGUMENTS. Never raises."""
    try:
        score, extra = read_score(function(**dict(zip(ARGUMENTS, sample, strict=True))))
    except InvalidScore as error:
        return ["invalid", 0.0, str(error), {}]
    except BaseException as error:  # SystemExit too: the user's code does not decide when this process ends
        return ["error", 0.0, describe(error), {}]
    return ["ok", score, "", extra]


def _end_if_forked() -> None:
    """A child that the user's code forked may come back out of that code; it must not answer for this one."""
    if os.getpid() != _PID:
        os._exit(0)


def _read(incoming: int, chunks: Chunks) -> None:
    stream = unpacker()
    while data := os.read(incoming, READ_SIZE):
        stream.feed(data)
        for chunk in stream:
            chunks.put(chunk)
    os.killpg(0, signal.SIGKILL)  # end of file: the parent closed the pipe, or is gone


def _write(outgoing: int, message: list[Any]) -> None:
    data = memoryview(pack(message))
    while data:
        data = data[os.write(outgoing, data) :]


if __name__ == "__main__":
    main(sys.argv[1:])
