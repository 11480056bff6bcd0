"""HTTP as bytes over a bare socket: what no well-behaved client library would send."""

import re
import socket

from tests.integration.door.running import RunningDoor

WITHIN = 30.0


def post(*headers: bytes, body: bytes = b"") -> bytes:
    """Return a POST of a text ticket with these header lines; nothing is added to them, no length either."""
    lines = (b"POST /v1/tickets?kind=support.ticket HTTP/1.1", b"Host: door", b"Content-Type: text/plain", *headers)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(*pieces: bytes) -> bytes:
    """Return a body in chunks."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))


def exchange(door: RunningDoor, *sent: bytes) -> bytes:
    """Send these bytes and read until the door closes the connection in an orderly way: a reset is an error."""
    with socket.create_connection(door.host_port, timeout=WITHIN) as line:
        for piece in sent:
            line.sendall(piece)
        return read_to_end(line)


def read_to_end(line: socket.socket) -> bytes:
    """Return what comes until the other side says that nothing more will."""
    received = b""
    while piece := line.recv(65536):
        received += piece
    return received


def statuses(received: bytes) -> list[int]:
    """Return the status of each answer in a row of answers."""
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] ([2-5]\d\d) ", received)]
