"""One worker process as its parent sees it: started, fed with a chunk of samples, read, killed with all it started.

A fresh interpreter, not multiprocessing's spawn, which would import the parent's main module and torch with it. Nothing
here blocks: pipes are non-blocking, since a worker whose code holds the interpreter lock reads nothing.
"""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack

import fusedrl
from fusedrl.rewards.source import Source
from fusedrl.rewards.wire import pack, pack_list, unpacker

READ_SIZE = 1 << 18
# the trainer's rendezvous and devices are not the reward function's
HIDDEN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def worker_environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in HIDDEN and not k.startswith("TORCHELASTIC_")}
    root = str(Path(fusedrl.__file__).resolve().parent.parent)
    paths = [root, *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


ANSWERS = ("ok", "error", "invalid")


class MalformedMessage(Exception):
    """The worker sent what no worker sends."""


class WorkerProcess:
    """`working` holds the indices of the samples sent and not answered; the first of them is the one in progress."""

    def __init__(self, source: Source, *, limit: float) -> None:
        theirs_in, self.requests = os.pipe()
        self.answers, theirs_out = os.pipe()
        arguments = [str(theirs_in), str(theirs_out), source.to_text(), str(limit)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fusedrl.rewards.worker", *arguments],
            pass_fds=(theirs_in, theirs_out),
            env=worker_environment(),
            stdin=subprocess.DEVNULL,
            stdout=sys.__stderr__.fileno() if sys.__stderr__ else subprocess.DEVNULL,
            start_new_session=True,  # a group of its own: killed whole, and untouched by Ctrl-C
        )
        os.close(theirs_in)
        os.close(theirs_out)
        os.set_blocking(self.requests, False)
        os.set_blocking(self.answers, False)
        self.ready = False
        self.working: deque[int] = deque()
        self.since = time.monotonic()  # start, or when the sample in progress began
        self._answered = 0  # the number of the sample in progress: samples are numbered over the worker's life
        self._stream = unpacker()
        self._ended = ""
        self._outbox = memoryview(b"")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_unsent(self) -> bool:
        return len(self._outbox) > 0

    def send(self, indices: Sequence[int], *, packed: Sequence[bytes]) -> None:
        """Hand over a chunk of samples, each packed as the list of its arguments' values; the worker must be idle."""
        assert not self.working
        assert not self.has_unsent
        self.working.extend(indices)
        self.since = time.monotonic()
        numbered = [pack_list([pack(number), each]) for number, each in enumerate(packed, self._answered)]
        self._outbox = memoryview(pack_list(numbered))
        self.flush()

    def flush(self) -> None:
        """Write what the pipe takes."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):  # a broken pipe shows as end of file in `receive`
            while self._outbox:
                self._outbox = self._outbox[os.write(self.requests, self._outbox) :]

    def receive(self) -> tuple[list[Any], bool]:
        """(messages that arrived, still alive?); MalformedMessage for bytes that are none."""
        alive = self._process.poll() is None  # asked before reading: a process that has ended sends no more
        try:
            while data := os.read(self.answers, READ_SIZE):
                self._stream.feed(data)
            alive = False
        except BlockingIOError:
            pass
        try:
            messages = list(self._stream)
        except (ValueError, msgpack.UnpackException) as error:
            raise MalformedMessage(str(error)) from error
        if messages:
            self.since = time.monotonic()
        return messages, alive

    def read_greeting(self, message: Any) -> tuple[str, str]:
        """("ready", "") or ("unusable", why)."""
        if not (isinstance(message, list) and len(message) == 2 and all(isinstance(part, str) for part in message)):
            raise MalformedMessage(repr(message)[:100])
        return message[0], message[1]

    def read_answer(self, message: Any) -> tuple[str, float, str, dict[str, Any]]:
        """(status, score, detail, extra) of the sample in progress; nothing is assumed of what untrusted code sent.

        An answer to any other sample is malformed: one too many or too few would shift scores onto other samples.
        """
        match message:
            case [self._answered, str(status), float(score), str(detail), dict(extra)]:
                if self.working and status in ANSWERS and math.isfinite(score):
                    self._answered += 1
                    return status, score, detail, extra
        raise MalformedMessage(repr(message)[:100])

    def kill(self) -> str:
        """End it and all it started; how it ended. Safe to call twice."""
        if self._ended:
            return self._ended
        for descriptor in (self.requests, self.answers):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        gone = self._process.poll()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._ended = _ending(self._process.returncode if gone is None else gone)
        return self._ended


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"signal {signal.Signals(-code).name}"
    return f"signal {-code}"
