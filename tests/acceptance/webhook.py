"""A listener such as a chat or a pager has: receives the station's alerts over HTTP.

Owns one thread and what it received. Judges nothing.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, _Server)
        self.server.received.append(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *_args: Any) -> None:  # noqa: A002  the name is the base class's
        """Say nothing: the story prints its own lines."""


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.received: list[dict[str, Any]] = []


class Webhook:
    """The receiver of an Apprise `json://` URL."""

    def __init__(self) -> None:
        self._server = _Server()
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens, on loopback."""
        return self._server.server_port

    def received(self, words: str) -> list[dict[str, Any]]:
        """Return the alerts whose title contains `words`."""
        return [alert for alert in list(self._server.received) if words in alert["title"]]

    def start(self) -> None:
        """Take alerts from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
