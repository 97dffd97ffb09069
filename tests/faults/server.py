"""A reward server that breaks: it scores as the file of tests.fusedrl.trainers.test_ppo_runs does, `answers` times."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType


class RewardServer:
    """On a port of its own; a context manager. After `answers` scores it gives status 500, until it is mended."""

    def __init__(self, *, answers: int) -> None:
        self._left, self._lock = float(answers), threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                good = outer._take()
                answer = json.dumps(sum(map(ord, asked["solution_str"])) / 100 if good else "broken").encode()
                self.send_response(200 if good else 500)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}/score"

    def mend(self) -> None:
        with self._lock:
            self._left = float("inf")

    def _take(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0

    def __enter__(self) -> "RewardServer":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
