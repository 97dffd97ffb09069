"""An instance hears what its coordinator makes, notices its silence, and takes nothing else."""

import pytest
import zmq

from fusedrl.stream.client import Client, Line, StreamError
from fusedrl.stream.liveness import Limits
from fusedrl.stream.messages import Hello, Infer, decode, encode
from fusedrl.stream.wire import COORDINATOR, Channel, Opener, Sealer

SECRET = b"k" * 32
LIMITS = Limits(pulse_s=0.05, silence_s=0.6)


def test_a_coordinator_that_dies_is_noticed() -> None:
    dead = zmq.Context.instance().socket(zmq.ROUTER)
    port = dead.bind_to_random_port("tcp://127.0.0.1")
    with Client(f"tcp://127.0.0.1:{port}", secret=SECRET, instance=0, limits=LIMITS) as client:
        client.send(Hello(8))
        with pytest.raises(StreamError, match=r"the coordinator \(rank 0\) was last heard \d\.\d s ago: dead"):
            client.wait()
    dead.close(linger=0)


def test_an_answer_that_the_coordinator_did_not_make_is_an_error() -> None:
    router = zmq.Context.instance().socket(zmq.ROUTER)
    port = router.bind_to_random_port("tcp://127.0.0.1")
    line = Line(f"tcp://127.0.0.1:{port}", secret=SECRET, instance=0, channel=Channel.WORK)
    line.send(Hello(8))
    identity, frame = router.recv_multipart()
    opened = Opener(SECRET, receiver=COORDINATOR, senders=range(2).__contains__, max_bytes=1000).open(frame)
    assert decode(opened[2]) == Hello(8)
    forged = Sealer(b"x" * 32, sender=COORDINATOR, receiver=0, channel=Channel.WORK)
    router.send_multipart([identity, forged.seal(encode(Infer((), ())))])
    with pytest.raises(StreamError, match="cannot be read: a frame in the name of sender"):
        line.receive(5000)
    line.close()
    router.close(linger=0)
