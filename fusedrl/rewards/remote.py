"""A reward server instead of a function: custom_reward_function.path=http://HOST:PORT/PATH.

Each response is one POST of the function's arguments as a JSON object; the answer is what a function would return, a
number or an object with "score":

    {"data_source": ..., "solution_str": ..., "ground_truth": ..., "extra_info": ...}  ->  0.5  or  {"score": 0.5, ...}

A server that is busy (429), broken (5xx) or gone is asked again, with pauses that double, while the call's time lasts.
Proxies of the environment are not used.
"""

import http.client
import json
import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, urlsplit

from fusedrl.rewards.function import KEY, RewardFunctionError

SCHEMES = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
PORTS = {"http": 80, "https": 443}
SHARE = 0.9  # of a call's limit: the worker says why before it is stopped
FIRST_PAUSE_S = 0.1
SHOWN = 200  # characters of an answer in a message
LARGEST_ANSWER = 1 << 20  # bytes
PIECE = 1 << 16


class RemoteRewardError(RuntimeError):
    """The server gave no score; the message names the address, the attempts and what came instead."""


class _Again(Exception):
    """What may pass: the next attempt may succeed."""


def is_url(path: object) -> bool:
    return isinstance(path, str) and path.partition("://")[0] in SCHEMES


def check_url(url: str) -> SplitResult:
    """Its parts. Raises RewardFunctionError."""
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        usable = False
    if not usable:
        raise RewardFunctionError(
            f"{KEY}.path={url}: not an address; write http://HOST:PORT/PATH, other characters as %20"
        )
    return parts


class RemoteReward:
    """Called as a reward function is. limit: seconds of one call, attempts and pauses together."""

    def __init__(self, url: str, *, retries: int, limit: float, pause: Callable[[float], None] = time.sleep) -> None:
        self.url, self._parts = url, check_url(url)
        self._retries, self._limit, self._pause = retries, SHARE * limit, pause
        self._connection: http.client.HTTPConnection | None = None

    def probe(self) -> None:
        """Raises RewardFunctionError where nothing listens at the address."""
        host, port = self._parts.hostname, self._parts.port or PORTS[self._parts.scheme]
        try:
            socket.create_connection((host, port), timeout=self._limit).close()
        except OSError as error:
            told = f"nothing answers at {host}:{port} ({error})"
            raise RewardFunctionError(f"{KEY}.path={self.url}: {told}; start the reward server first") from error

    def __call__(
        self, data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
    ) -> Any:
        values = {
            "data_source": data_source,
            "solution_str": solution_str,
            "ground_truth": ground_truth,
            "extra_info": extra_info or {},
        }
        body = json.dumps(values, default=str).encode()
        end = time.monotonic() + self._limit
        for attempt in range(1, self._retries + 2):
            try:
                return self._ask(body, timeout=max(end - time.monotonic(), 1e-3))
            except _Again as error:
                pause = FIRST_PAUSE_S * 2 ** (attempt - 1)
                if attempt > self._retries or time.monotonic() + pause >= end:
                    attempts = "1 attempt" if attempt == 1 else f"{attempt} attempts"
                    raise RemoteRewardError(f"{self.url}: {error} ({attempts})") from error
                self._pause(pause)
        raise AssertionError("unreachable")

    def _ask(self, body: bytes, *, timeout: float) -> Any:
        """One attempt on a connection that stays open between calls."""
        try:
            connection = self._connected(timeout)
            connection.request("POST", self._target(), body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            status, answer = response.status, _read(response, end=time.monotonic() + timeout)
        except (OSError, http.client.HTTPException) as error:
            self._close()
            raise _Again(f"{type(error).__name__}: {error}") from error
        if len(answer) > LARGEST_ANSWER:
            self._close()
            raise RemoteRewardError(f"{self.url}: the answer has more than {LARGEST_ANSWER} bytes")
        text = answer.decode(errors="replace")
        if status == 429 or status >= 500:
            raise _Again(f"status {status}: {text[:SHOWN]}")
        if status != 200:
            raise RemoteRewardError(f"{self.url}: status {status}: {text[:SHOWN]}")
        try:
            return json.loads(text)
        except ValueError as error:
            raise RemoteRewardError(f"{self.url}: the answer is not JSON: {text[:SHOWN]}") from error

    def _connected(self, timeout: float) -> http.client.HTTPConnection:
        if self._connection is None:
            assert self._parts.hostname is not None
            self._connection = SCHEMES[self._parts.scheme](self._parts.hostname, self._parts.port, timeout=timeout)
        elif self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)
        return self._connection

    def _target(self) -> str:
        path, query = self._parts.path or "/", self._parts.query
        return f"{path}?{query}" if query else path

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _read(response: http.client.HTTPResponse, *, end: float) -> bytes:
    """The answer, up to a byte more than the largest. TimeoutError beyond `end`, however steadily it drips."""
    answer = b""
    while len(answer) <= LARGEST_ANSWER and (piece := response.read1(PIECE)):
        answer += piece
        if time.monotonic() > end:
            raise TimeoutError("timed out")
    if len(answer) <= LARGEST_ANSWER:
        if response.length:
            raise http.client.IncompleteRead(answer, response.length)
        response.read()  # nothing is left; the connection is free for the next call
    return answer
