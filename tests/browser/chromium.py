"""Headless Chromium driven over its DevTools pipe: pages as a person's browser has them. Debian's `chromium` is enough.

    with Chromium.start(CHROMIUM) as browser:
        page = browser.open(Path("report.html"), width=360)
        page.value("document.title"), page.errors, page.requests

The pipe carries JSON messages that end with a zero byte: commands with an id, answers with the same, and events.
"""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
MISSING = "no Chromium here; on Debian: bash launch/setup_browser.sh"
LIMIT_S = 60.0  # for an answer, however loaded the machine is
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # as root, which containers are; the pages are the project's own
    "--disable-gpu",
    "--hide-scrollbars",  # so that the window has the width that was asked for
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
)


@dataclass
class Page:
    """A loaded page. errors: of the console and of scripts; requests: addresses that it asked for, itself first."""

    browser: "Chromium"
    session: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def value(self, expression: str) -> Any:
        """What JavaScript makes of it in the page, as plain data."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """A key of the keyboard, as Tab."""
        code = {"Tab": 9, "Enter": 13}[key]
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def resize(self, *, width: int, height: int = 800) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.call(method, params, session=self.session)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Keeps what an event says of errors and requests."""
        params = event["params"]
        match event["method"]:
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Runtime.exceptionThrown":
                self.errors.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(str(params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.errors.append(params["entry"]["text"])


class Chromium:
    """One browser for many pages; a context manager."""

    def __init__(self, process: "subprocess.Popen[bytes]", *, reading: int, writing: int, folder: str) -> None:
        self._process, self._reading, self._writing, self._folder = process, reading, writing, folder
        self._rest, self._last = b"", 0
        self._pages: dict[str, Page] = {}
        self._loaded: set[str] = set()

    @classmethod
    def start(cls, program: str) -> "Chromium":
        folder = tempfile.mkdtemp(prefix="fusedrl-browser-")
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        words = [program, *OPTIONS, f"--user-data-dir={folder}", "about:blank"]
        shell = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out} 2>/dev/null', "bash", *words]
        process = subprocess.Popen(shell, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        return cls(process, reading=ours_in, writing=ours_out, folder=folder)

    def open(self, path: Path, *, width: int = 1280) -> Page:
        """The page once it has loaded."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.resize(width=width)
        self._loaded.discard(session)
        page.call("Page.navigate", url=path.resolve().as_uri())
        until = time.monotonic() + LIMIT_S
        while session not in self._loaded:
            self._event(self._message(until))
        return page

    def call(self, method: str, params: Mapping[str, Any], *, session: str | None = None) -> dict[str, Any]:
        self._last += 1
        asked = {"id": self._last, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._writing, json.dumps(asked).encode() + b"\0")
        until = time.monotonic() + LIMIT_S
        while (message := self._message(until)).get("id") != self._last:
            self._event(message)
        assert "error" not in message, f"{method}: {message['error']}"
        found: dict[str, Any] = message["result"]
        return found

    def _event(self, message: Mapping[str, Any]) -> None:
        page = self._pages.get(message.get("sessionId", ""))
        if page is not None and "method" in message:
            page.hear(message)
            if message["method"] == "Page.loadEventFired":
                self._loaded.add(page.session)

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._reading], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"Chromium gave no answer in {LIMIT_S:.0f} s"
            part = os.read(self._reading, 1 << 20)
            assert part, f"Chromium ended with code {self._process.wait()}"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def __enter__(self) -> "Chromium":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._writing)  # Chromium ends with its pipe
        os.close(self._reading)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
