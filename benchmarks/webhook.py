"""A listener such as a chat or a pager has: notes when an alert about a ticket came. Judges nothing."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode("utf-8", "replace")
        assert isinstance(self.server, _Server)  # noqa: S101  the server below is the only one that makes receivers
        self.server.received.append((time.time(), body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *_args: Any) -> None:  # noqa: A002  the name is the base class's
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Receiver)
        self.received: list[tuple[float, str]] = []


class Webhook:
    """The receiver of an Apprise `json://` URL, on a free port of loopback."""

    def __init__(self) -> None:
        self._server = _Server()
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True)

    @property
    def url(self) -> str:
        """What LAZARETTO_ALERT_URLS takes."""
        return f"json://127.0.0.1:{self._server.server_port}/alerts"

    def told_of(self, ticket: str) -> float | None:
        """Unix seconds at which the alert came that `ticket` is in quarantine, None if it did not.

        Warnings come before it: that it is a suspect, after its second death.
        """
        title = f"Quarantine: ticket {ticket} "
        return next((at for at, body in list(self._server.received) if title in body), None)

    def __enter__(self) -> Self:
        """Take alerts from now on."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
