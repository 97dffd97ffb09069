"""The coordinator's socket: frames in, decisions by `Control`, frames out. A thread on rank 0.

    DEALER of each instance's loop  --\\
    DEALER of each instance's pulse ---> ROUTER -> open -> decode -> Control -> encode -> seal -> DEALER of the loop
    threads of the reward function  --/ (queue and pipe)

What does not open or decode is refused, counted by kind and logged; it changes nothing. Everything waits with a limit.
"""

import contextlib
import logging
import os
import queue
import threading
import time
from collections import Counter
from typing import Any

import zmq

from fusedrl.stream.address import endpoint
from fusedrl.stream.control import Command, Control, ProtocolError, Score
from fusedrl.stream.liveness import Limits, Liveness
from fusedrl.stream.messages import (
    MAX_BYTES,
    Echo,
    MalformedMessage,
    Message,
    Pulse,
    Stop,
    ToCoordinator,
    decode,
    encode,
)
from fusedrl.stream.sample import IllegalTransition
from fusedrl.stream.scoring import Scorer
from fusedrl.stream.wire import COORDINATOR, Channel, FrameLost, Opener, Refused, Sealer

logger = logging.getLogger(__name__)
TICK_MS = 50  # how often silence is looked for
LINGER_MS = 5000  # for the last messages to leave
LOGGED = 20  # refusals written to the log; all are counted
FROM_INSTANCES = ToCoordinator


class Coordinator:
    """Serves one step. `start` binds and begins; `join` waits for the end; then `control` and `refused` tell."""

    def __init__(
        self, control: Control, *, secret: bytes, limits: Limits, scorer: Scorer | None, address: str = "127.0.0.1"
    ) -> None:
        assert control.work.scored == (scorer is not None)
        self.control, self.refused = control, Counter[str]()
        self.began = self.seconds = 0.0  # from the first share handed out to the last sample ready
        self.generation_seconds = 0.0  # to the last response
        self._scorer, self._limits = scorer, limits
        instances = range(len(control.work.shares))
        self._opener = Opener(secret, receiver=COORDINATOR, senders=instances.__contains__, max_bytes=MAX_BYTES)
        self._sealers = {
            (each, channel): Sealer(secret, sender=COORDINATOR, receiver=each, channel=channel)
            for each in instances
            for channel in Channel
        }
        self._liveness = Liveness(instances, limits=limits, now=time.monotonic())
        self._routes: dict[tuple[int, Channel], bytes] = {}
        self._scores: queue.SimpleQueue[tuple[int, float] | str] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_BYTES)  # a peer that sends more is cut off unread
        self._socket.setsockopt(zmq.IPV6, int(":" in address))
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self.endpoint = endpoint(address, self._socket.bind_to_random_port(endpoint(address, 0).rpartition(":")[0]))
        self._thread = threading.Thread(target=self._serve, name="stream coordinator", daemon=True)

    def start(self) -> None:
        if self._scorer is not None:
            self._scorer.start(self._scored, self._no_score)
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait for the end of the step. The instances have been told; this takes no time but for a lost thread."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise RuntimeError(f"the coordinator's thread did not end within {timeout:g} s of the step")

    def _scored(self, sample_id: int, score: float) -> None:
        self._tell((sample_id, score))

    def _no_score(self, reason: str) -> None:
        self._tell(reason)

    def _tell(self, news: tuple[int, float] | str) -> None:
        self._scores.put(news)
        with contextlib.suppress(OSError):  # full: it will wake anyway; closed: the step is over
            os.write(self._wake_write, b"x")

    def _serve(self) -> None:
        try:
            self._loop()
        except Exception as error:  # a defect of the coordinator must not leave the other ranks waiting
            logger.exception("the coordinator failed")
            self._act(self.control.fail(f"the coordinator failed: {type(error).__name__}: {error}"))
        finally:
            if self._scorer is not None:
                self._scorer.stop()
            self._socket.close(linger=LINGER_MS)
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _loop(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._wake_read, zmq.POLLIN)
        looked = time.monotonic()
        while not self.control.ended:
            events: dict[Any, int] = dict(poller.poll(TICK_MS))
            if self._wake_read in events:
                self._take_scores()
            if self._socket in events:
                self._take_frames()
            now = time.monotonic()
            if now - looked > TICK_MS / 1000:
                looked = now
                trouble = self._liveness.trouble(missing=self.control.missing, now=now)
                if trouble:
                    self._act(self.control.fail(trouble))

    def _take_scores(self) -> None:
        os.read(self._wake_read, 4096)
        while not self._scores.empty():
            news = self._scores.get()
            self._act(self.control.fail(news) if isinstance(news, str) else self.control.scored(*news))

    def _take_frames(self) -> None:
        while not self.control.ended:
            try:
                parts = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._take(parts)

    def _take(self, parts: list[bytes]) -> None:
        try:
            if len(parts) != 2:
                raise Refused("malformed", f"{len(parts)} parts")
            instance, channel, body = self._opener.open(parts[1])
            message = decode(body)
            if not isinstance(message, FROM_INSTANCES) or isinstance(message, Pulse) != (channel is Channel.PULSE):
                raise Refused("malformed", f"{type(message).__name__} from instance {instance}")
        except Refused as error:
            return self._refuse(error.kind, str(error))
        except MalformedMessage as error:
            return self._refuse("malformed", str(error))
        except FrameLost as error:
            return self._act(self.control.fail(str(error)))
        self._routes[instance, channel] = parts[0]
        self._answer(instance, message)

    def _answer(self, instance: int, message: ToCoordinator) -> None:
        now = time.monotonic()
        if isinstance(message, Pulse):
            self._liveness.pulse(instance, progress=message.progress, activity=message.activity, now=now)
            return self._send(instance, Channel.PULSE, Echo())
        self._liveness.heard(instance, now=now)
        joined = self.control.joined
        try:
            commands = self.control.handle(message, instance=instance)
        except (ProtocolError, IllegalTransition) as error:
            commands = self.control.fail(str(error))
        if self.control.joined and not joined:
            self.began = time.perf_counter()
        if self.control.joined and not self.control.ledger.unfinished and not self.generation_seconds:
            self.generation_seconds = time.perf_counter() - self.began
        self._act(commands)

    def _act(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, Score):
                assert self._scorer is not None
                self._scorer.submit(command.sample)
                continue
            if isinstance(command.message, Stop):
                self.seconds = time.perf_counter() - self.began
            self._send(command.instance, Channel.WORK, command.message)

    def _send(self, instance: int, channel: Channel, message: Message) -> None:
        route = self._routes.get((instance, channel))
        if route is None:  # it has not joined; its own limit ends it
            return
        self._socket.send_multipart([route, self._sealers[instance, channel].seal(encode(message))], zmq.NOBLOCK)

    def _refuse(self, kind: str, detail: str) -> None:
        self.refused[kind] += 1
        if self.refused.total() <= LOGGED:
            logger.warning("refused a %s message: %s", kind, detail)
