"""An instance's side of the wire: one socket for its loop, one for its pulse.

The pulse is a thread that says every half second that the process lives and how far its loop is. What comes back says
that the coordinator lives; where nothing comes for too long, the loop is told at its next message or wait.
"""

import threading
import time
from types import TracebackType

import zmq

from fusedrl.stream.liveness import Limits
from fusedrl.stream.messages import MAX_BYTES, Message, Pulse, decode, encode
from fusedrl.stream.wire import COORDINATOR, Channel, FrameLost, Opener, Refused, Sealer

SLICE_MS = 200  # a wait looks up this often
LINGER_MS = 2000


class StreamError(RuntimeError):
    """The step cannot be finished. The same reason is raised on every rank that could be told."""


class Line:
    """One sealed connection to the coordinator, for one thread."""

    def __init__(self, endpoint: str, *, secret: bytes, instance: int, channel: Channel) -> None:
        self._sealer = Sealer(secret, sender=instance, receiver=COORDINATOR, channel=channel)
        self._opener = Opener(secret, receiver=instance, senders=COORDINATOR.__eq__, max_bytes=MAX_BYTES)
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)
        self._socket.setsockopt(zmq.IPV6, int("[" in endpoint))
        self._socket.connect(endpoint)

    def send(self, message: Message) -> None:
        try:
            self._socket.send(self._sealer.seal(encode(message)), zmq.NOBLOCK)
        except zmq.Again:
            raise StreamError("the coordinator takes no messages: its queue is full") from None

    def receive(self, timeout_ms: int) -> Message | None:
        """The next message, or None if none comes in time."""
        if timeout_ms > 0 and not self._socket.poll(timeout_ms):
            return None
        try:
            return decode(self._opener.open(self._socket.recv(zmq.NOBLOCK))[2])
        except zmq.Again:
            return None
        except (Refused, FrameLost, ValueError) as error:  # the one peer of this socket is the coordinator
            raise StreamError(f"the coordinator's message cannot be read: {error}") from error

    def close(self) -> None:
        self._socket.close(linger=LINGER_MS)


class Client:
    """The instance's connection for one step; a context manager."""

    def __init__(self, endpoint: str, *, secret: bytes, instance: int, limits: Limits) -> None:
        self.progress, self.activity = 0, "starting"  # read by the pulse; each set by the loop alone
        self._limits = limits
        self._trouble = ""
        self._over = threading.Event()
        self._line = Line(endpoint, secret=secret, instance=instance, channel=Channel.WORK)
        self._pulse = threading.Thread(
            target=self._beat, args=(endpoint, secret, instance), name="stream pulse", daemon=True
        )

    def __enter__(self) -> "Client":
        self._pulse.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._pulse.join(2 * self._limits.pulse_s + 1)
        self._line.close()

    def send(self, message: Message) -> None:
        self._line.send(message)

    def poll(self) -> Message | None:
        """A message that is there already. Raises StreamError where the step is off."""
        self._check()
        return self._line.receive(0)

    def wait(self) -> Message:
        """The next message. The coordinator's silence and its limit on the step end the wait with a StreamError."""
        while True:
            self._check()
            message = self._line.receive(SLICE_MS)
            if message is not None:
                return message

    def _check(self) -> None:
        if self._trouble:
            raise StreamError(self._trouble)

    def _beat(self, endpoint: str, secret: bytes, instance: int) -> None:
        line = Line(endpoint, secret=secret, instance=instance, channel=Channel.PULSE)
        try:
            self._pulse_until_over(line)
        except StreamError as error:
            self._trouble = self._trouble or str(error)
        finally:
            line.close()

    def _pulse_until_over(self, line: Line) -> None:
        heard = time.monotonic()
        while not self._over.wait(self._limits.pulse_s):
            line.send(Pulse(self.progress, self.activity))
            while line.receive(0) is not None:
                heard = time.monotonic()
            silent = time.monotonic() - heard
            if silent > self._limits.silence_s and not self._trouble:
                self._trouble = f"the coordinator (rank 0) was last heard {silent:.1f} s ago: dead"
