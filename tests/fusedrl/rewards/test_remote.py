"""A reward server of this process, whose answers the response's text decides."""

import contextlib
import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from fusedrl.rewards.function import RewardFunctionError
from fusedrl.rewards.remote import RemoteReward, RemoteRewardError
from fusedrl.rewards.runner import RewardRunner
from fusedrl.rewards.sample import RewardSample


class Server(ThreadingHTTPServer):
    """Counts what it is asked; "hang" waits until the test is over."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: Counter[str] = Counter()
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/score?of=test"


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        action, _, rest = given["solution_str"].partition(":")
        self.server.asked[action] += 1
        if action == "hang":
            self.server.over.wait()
        if action == "drip":
            return self.drip()
        failures, status = rest.split(",") if action == "fails" else ("0", "400" if action == "bad" else "200")
        fails = self.server.asked[action] <= int(failures)
        answer = {"score": 0.5, "given": given["ground_truth"], "path": self.path} if action == "entries" else 0.25
        large = " " * (2 << 20) if action == "large" else ""
        text = large or (rest if action in ("bad", "text") else "busy" if fails else json.dumps(answer))
        self.send_response(int(status) if fails or action == "bad" else 200)
        self.send_header("Content-Length", str(len(text) + (action == "short")))
        self.end_headers()
        with contextlib.suppress(OSError):  # who reads may have had enough
            self.wfile.write(text.encode())
        self.close_connection = action == "short"

    def drip(self) -> None:
        """A byte now and then, for as long as somebody reads."""
        self.send_response(200)
        self.send_header("Content-Length", str(1 << 20))
        self.end_headers()
        with contextlib.suppress(OSError):
            while not self.server.over.wait(0.01):
                self.wfile.write(b" ")

    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.over.set()
        found.shutdown()


def ask(server: Server, text: str, *, retries: int = 2, limit: float = 60.0) -> tuple[Any, list[float]]:
    """What the server gave, and the pauses before."""
    pauses: list[float] = []
    return RemoteReward(server.url, retries=retries, limit=limit, pause=pauses.append)("source", text, "7"), pauses


def test_a_number_or_an_object_comes_as_a_function_s_would(server: Server) -> None:
    assert ask(server, "number") == (0.25, [])
    assert ask(server, "entries") == ({"score": 0.5, "given": "7", "path": "/score?of=test"}, [])


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_busy_or_broken_is_asked_again_after_longer_and_longer_pauses(
    server: Server, status: int
) -> None:
    assert ask(server, f"fails:2,{status}") == (0.25, [0.1, 0.2])


@pytest.mark.parametrize(
    ("text", "retries", "message", "asked"),
    [
        ("fails:9,503", 1, r"/score\?of=test: status 503: busy \(2 attempts\)$", 2),
        ("bad:no such column", 5, r"status 400: no such column$", 1),
        ("text:thanks", 5, r"the answer is not JSON: thanks$", 1),
    ],
)
def test_no_score_is_one_line_of_address_attempts_and_answer(
    server: Server, text: str, retries: int, message: str, asked: int
) -> None:
    with pytest.raises(RemoteRewardError, match=message):
        ask(server, text, retries=retries)
    assert server.asked.total() == asked


def test_a_server_that_hangs_costs_no_more_than_the_limit_of_a_call(server: Server) -> None:
    for action in ("hang", "drip"):
        with pytest.raises(RemoteRewardError, match=r"timed out \(1 attempt\)$"):
            ask(server, action, retries=100, limit=0.2)


def test_an_answer_that_breaks_off_is_asked_for_again(server: Server) -> None:
    with pytest.raises(RemoteRewardError, match=r"IncompleteRead.*\(2 attempts\)$"):
        ask(server, "short", retries=1)


def test_an_answer_is_read_up_to_a_limit(server: Server) -> None:
    with pytest.raises(RemoteRewardError, match="the answer has more than 1048576 bytes"):
        ask(server, "large")
    assert server.asked.total() == 1


def test_a_connection_stays_open_and_a_lost_one_is_opened_again(server: Server) -> None:
    remote = RemoteReward(server.url, retries=1, limit=60.0, pause=lambda seconds: None)
    assert remote("", "number", None) == 0.25
    connection = remote._connection
    assert remote("", "number", None) == 0.25
    assert connection is not None
    assert remote._connection is connection
    assert connection.sock is not None
    connection.sock.close()
    assert remote("", "number", None) == 0.25


@pytest.mark.parametrize(
    "url", ["http://", "http://host:0/", "http://host:port/", "http://host/a b", "http://host/\u00fc"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(RewardFunctionError, match=r"custom_reward_function\.path=http.*: not an address"):
        RemoteReward(url, retries=0, limit=1.0)


def test_workers_ask_the_server_and_count_its_failures(server: Server) -> None:
    samples = [RewardSample(text, "source", text, "7", {"n": 1}) for text in ("number", "bad:no", "entries")]
    with RewardRunner(server.url, workers=1, timeout=60.0, default_score=-1.0, retries=0) as runner:
        found = runner.score(samples)
    assert [(result.status, result.score) for result in found] == [("ok", 0.25), ("error", -1.0), ("ok", 0.5)]
    assert found[2].extra["given"] == "7"
    assert "status 400: no" in found[1].detail


def test_a_server_that_is_not_there_stops_the_run_at_its_start() -> None:
    with socket.socket() as taken:  # a port that is bound and does not listen
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        with pytest.raises(RewardFunctionError, match=r"nothing answers at 127\.0\.0\.1:\d+ .*start the reward server"):
            RewardRunner(url, workers=1)
