"""Real sockets, in one process: what is not of this run changes nothing, and who is gone is named to all."""

import contextlib
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import zmq

from fusedrl.bench.emulated_rollout import EmulatedEngine, EmulatedInference
from fusedrl.rollout.requests import Request
from fusedrl.rollout.sampling import SamplingParams
from fusedrl.stream import coordinator as module
from fusedrl.stream.client import Client, Line, StreamError
from fusedrl.stream.control import Control, Policy, Work
from fusedrl.stream.coordinator import Coordinator
from fusedrl.stream.costs import DecodeCurve, StreamCosts
from fusedrl.stream.instance import Engine, Instance, Place
from fusedrl.stream.liveness import Limits
from fusedrl.stream.messages import Hello, Pulse, Want, encode
from fusedrl.stream.wire import COORDINATOR, Channel, Sealer
from tests.fusedrl.stream.holding import HeldEmulatedEngine

SECRET = b"k" * 32
COSTS = StreamCosts(decode=DecodeCurve(((1, 1.0), (2, 1.0))), prefill_ms=0.0, infer_ms={"ref": 0.001}, max_rows=8)
LENGTHS = {i: 3 + 7 * i for i in range(8)}
LIMITS = Limits(pulse_s=0.05, silence_s=10, stall_s=10, join_s=10)
REQUESTS = {i: Request(sample_id=i, prompt=(i, 1), params=SamplingParams(max_tokens=500)) for i in LENGTHS}


def control(policy: Policy | None = None) -> Control:
    shares = [[0, 2, 4, 6], [1, 3, 5, 7]]
    work = Work(shares=shares, prompt_tokens=dict.fromkeys(LENGTHS, 2), tasks=("ref",), scored=False)
    return Control(work, policy=policy or Policy(r_t=6, m=1))


@contextlib.contextmanager
def serving(limits: Limits = LIMITS) -> Iterator[Coordinator]:
    served = Coordinator(control(), secret=SECRET, limits=limits, scorer=None)
    served.start()
    try:
        yield served
    finally:
        served.join(20)


class Rank(threading.Thread):
    """An instance in a thread; `error` is what ended it."""

    def __init__(
        self, served: Coordinator, index: int, *, engine: Engine | None = None, limits: Limits = LIMITS
    ) -> None:
        super().__init__(daemon=True)
        self.served, self.index, self.limits = served, index, limits
        self.engine = engine or EmulatedEngine(LENGTHS, costs=COSTS)
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            with Client(self.served.endpoint, secret=SECRET, instance=self.index, limits=self.limits) as client:
                Instance(
                    Place(instance=self.index, member=0, ranks=[(0,), (1,)]),
                    engine=self.engine,
                    inference=EmulatedInference(COSTS.infer_ms),
                    requests=REQUESTS,
                    groups=self.served.control.groups,
                    client=client,
                ).run()
        except BaseException as error:
            self.error = error

    def end(self) -> "Rank":
        self.join(20)
        assert not self.is_alive()
        return self


def test_a_step_over_sockets_gives_every_sample_its_own_tokens() -> None:
    with serving() as served:
        ranks = [Rank(served, index, engine=HeldEmulatedEngine(LENGTHS, costs=COSTS)) for index in range(2)]
        assert [rank.end().error for rank in ranks] == [None, None]
    found = served.control
    assert found.done
    assert {each: state.length for each, state in found.finished.items()} == LENGTHS
    assert set(found.values) == {("ref", each) for each in LENGTHS}
    assert found.moved["samples"] > 0
    assert not served.refused
    assert served.seconds > 0


def stranger(served: Coordinator) -> "zmq.Socket[bytes]":
    socket = zmq.Context.instance().socket(zmq.DEALER)
    socket.connect(served.endpoint)
    return socket


def test_strangers_noise_and_repeats_are_counted_and_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with serving() as served:
        other = Sealer(b"x" * 32, sender=0, receiver=COORDINATOR, channel=Channel.WORK)
        known = Sealer(SECRET, sender=1, receiver=COORDINATOR, channel=Channel.WORK)
        socket = stranger(served)
        want = known.seal(encode(Want(0)))
        for frame in (other.seal(encode(Hello(8))), b"noise", b"", want, want, known.seal(b"no message")):
            socket.send(frame)
        socket.send(known.seal(encode(Pulse(0, "starting"))))  # a pulse does not come on the work's channel
        socket.send_multipart([b"two", b"parts"])
        wait_for(lambda: served.refused.total() >= 7)
        socket.close(linger=0)
        served._opener._expected.clear()  # the frames above took instance 1's first numbers
        ranks = [Rank(served, index) for index in range(2)]
        assert [rank.end().error for rank in ranks] == [None, None]
    assert served.refused == {"foreign": 1, "malformed": 5, "replayed": 1}
    assert "refused a foreign message: a frame in the name of sender 0 is not of this run" in caplog.text


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_an_oversized_message_is_cut_off_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 100_000)
    with serving() as served:
        socket = stranger(served)
        socket.send(b"x" * 200_000)
        ranks = [Rank(served, index) for index in range(2)]
        assert [rank.end().error for rank in ranks] == [None, None]
        socket.close(linger=0)
    assert served.control.done


def test_an_instance_that_dies_is_named_to_the_others() -> None:
    with serving(Limits(pulse_s=0.05, silence_s=0.6)) as served:
        line = Line(served.endpoint, secret=SECRET, instance=0, channel=Channel.WORK)
        line.send(Hello(8))  # and then nothing: killed
        other = Rank(served, 1).end()
        line.close()
    assert isinstance(other.error, StreamError)
    assert re.match(r"instance 0 was last heard \d\.\d s ago, starting: dead", str(other.error))
    assert served.control.failure == str(other.error)


def test_an_instance_that_never_comes_is_named() -> None:
    with serving(Limits(pulse_s=0.05, silence_s=10, join_s=0.3)) as served:
        other = Rank(served, 1).end()
    assert str(other.error) == "instances 0 did not join within 0.3 s"


class Failing(EmulatedEngine):
    def step(self) -> list[Any]:
        raise MemoryError("no room for the cache")


class Stuck(EmulatedEngine):
    def step(self) -> list[Any]:
        time.sleep(1.5)
        return []


def test_an_engine_that_fails_ends_the_step_everywhere_with_its_reason() -> None:
    with serving() as served:
        ranks = [Rank(served, 0, engine=Failing(LENGTHS, costs=COSTS)), Rank(served, 1)]
        errors = [rank.end().error for rank in ranks]
    assert isinstance(errors[0], MemoryError)
    assert str(errors[1]) == "instance 0 failed: MemoryError: no room for the cache"


def test_an_engine_that_hangs_is_told_apart_from_a_dead_one() -> None:
    limits = Limits(pulse_s=0.05, silence_s=5, stall_s=0.5, join_s=5)
    with serving(limits) as served:
        ranks = [Rank(served, 0, engine=Stuck(LENGTHS, costs=COSTS)), Rank(served, 1)]
        errors = [str(rank.end().error) for rank in ranks]
    assert errors == ["instance 0 is stuck for 0.5 s, generating 4 samples"] * 2
