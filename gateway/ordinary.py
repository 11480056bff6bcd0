"""The short way of the ordinary ticket: small, whole, new, faultless, and from somebody without a quota.

Owns what is ordinary, and the bytes of the two answers that such a ticket can get. It is examined, published and
recorded like every other, but without the tasks, the request, the route and the response that the web server makes for
each, and which cost more than all the rest. What it leaves to the long way it has neither taken nor counted:
`gateway.submission` begins from the beginning.
"""

import logging
import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Final

import orjson
from aiohttp import EMPTY_PAYLOAD, HttpVersion11, StreamReader, hdrs, web
from aiohttp.http_parser import RawRequestMessage

from gateway import answers, problem_document
from gateway.amqp.fate import Ended, Fate
from gateway.client_address import client_address, networks
from gateway.clients import Caller
from gateway.contract import logs
from gateway.contract.envelope import Envelope
from gateway.contract.ids import TicketId, uuid7
from gateway.door import Door
from gateway.fresh import FreshTicket
from gateway.preflight.examination import Passed
from gateway.preflight.ticket import Submission
from gateway.serving import EVERY_ANSWER, dress, log
from gateway.submission import admission_of, closed, measure

PATH: Final = "/v1/tickets"
_UNUSUAL: Final = ("Idempotency-Key", "Lazaretto-Kind", hdrs.EXPECT, hdrs.CONTENT_ENCODING, hdrs.TRANSFER_ENCODING)
"""Headers that make more of a submission than its body."""
_TAKES_JSON: Final = frozenset({"*/*", "application/json"})
STRICT_TRANSPORT: Final = "max-age=31536000"

Answer = Callable[[bytes], None]
"""Sends a whole answer: head and content."""


class OrdinaryTickets:
    """Takes ordinary tickets in, for one door."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._sizes = door.metrics.tally(door.metrics.body_bytes)
        self._head = _Head(secure=door.certificate is not None)
        self._trusted = networks(door.settings.trusted_proxies)
        self._max_bytes = door.limits.of(None).max_body_bytes

    def take(self, message: RawRequestMessage, payload: StreamReader, answer: Answer, peer: Callable[[], str]) -> bool:
        """Take the ticket in and have it answered, once and in time; False where it is none of the ordinary ones."""
        caller = self._caller(message, payload)
        if caller is None:
            return False
        # Looked at where it lies, and not read: the long way reads it itself.
        body = b"".join(payload._buffer)  # noqa: SLF001 - the lock file pins it; tests of both ways send the same
        if len(body) > self._max_bytes or not self._door.room.fits(len(body), unfinished=False):
            return False
        content_type = message.headers.get(hdrs.CONTENT_TYPE)
        started = time.perf_counter()
        passed = self._door.examiner.at_once(Submission(body=body, content_type=content_type))
        if passed is None or passed.ticket.id is not None or passed.ticket.attachments:
            return False
        if not caller.may_submit(passed.ticket.kind):
            return False
        self._sizes.observe(len(body))
        received = time.time()
        ticket = TicketId(uuid7())
        document = orjson.dumps(answers.receipt(ticket, received, passed))
        place = self._door.room.enter()
        place.hold(len(body), whole=True)

        def told(fate: Fate) -> None:
            self._door.room.leave(place)
            if fate is Fate.CONFIRMED:
                answer(self._accepted(passed, ticket, document))
                return
            who = {"client": caller.client, "address": self._address(peer(), message)}
            answer(self._not_accepted(passed, fate, **who, seconds=round(time.perf_counter() - started, 4)))

        try:
            self._send(ticket, passed, message, told, client=caller.client, body=body, received=received)
        except BaseException:
            self._door.room.leave(place)
            raise
        return True

    def _send(
        self,
        ticket: TicketId,
        passed: Passed,
        message: RawRequestMessage,
        told: Ended,
        *,
        client: str,
        body: bytes,
        received: float,
    ) -> None:
        content_type = message.headers.get(hdrs.CONTENT_TYPE) or "application/octet-stream"
        traceparent, tracestate = message.headers.get("traceparent"), message.headers.get("tracestate")
        if traceparent is None and tracestate is None and not passed.admission.rules:
            fresh = FreshTicket.of(
                passed.admission.facts,
                ticket=ticket,
                kind=passed.ticket.kind,
                client=client,
                content_type=content_type,
                body=body,
                received=received,
            )
            self._door.tickets.send_fresh(fresh, told)
            return
        envelope = Envelope(
            ticket=ticket,
            kind=passed.ticket.kind,
            body=body,
            content_type=content_type,
            submitted_at=received,
            admission=admission_of(passed.admission, client, received, None),
            traceparent=traceparent,
            tracestate=tracestate,
        )
        self._door.tickets.send(envelope, told)

    def _address(self, peer: str, message: RawRequestMessage) -> str:
        if not self._trusted:
            return peer
        told = client_address(
            peer,
            forwarded=message.headers.getall("Forwarded", ()),
            x_forwarded_for=message.headers.getall("X-Forwarded-For", ()),
            trusted=self._trusted,
        )
        return told or ""

    def _caller(self, message: RawRequestMessage, payload: StreamReader) -> Caller | None:
        """Return who sends what has nothing unusual about it; None for all else."""
        headers = message.headers
        if (
            message.method != hdrs.METH_POST
            or message.path != PATH
            or message.version != HttpVersion11
            or message.should_close
            or message.upgrade
            or message.chunked
            or payload is EMPTY_PAYLOAD
            or not payload.is_eof()
            or payload.exception() is not None
            or any(name in headers for name in _UNUSUAL)
            or not _TAKES_JSON.issuperset(headers.getall(hdrs.ACCEPT, ()))
            or log.isEnabledFor(logging.DEBUG)
            or self._door.obstacle() is not None
        ):
            return None
        caller = self._door.clients.identify(headers.getall(hdrs.AUTHORIZATION, ()))
        return caller if isinstance(caller, Caller) and caller.allowance is None else None

    def _accepted(self, passed: Passed, ticket: TicketId, document: bytes) -> bytes:
        measure(self._door.metrics, passed.admission)
        self._door.metrics.submission("accepted", passed.ticket.kind).inc()
        return self._head.accepted(ticket, uuid7(), document)

    def _not_accepted(self, passed: Passed, fate: Fate, **told: Any) -> bytes:
        self._door.metrics.submission("unavailable", passed.ticket.kind).inc()
        request_id = uuid7()
        answer = problem_document.response(closed(fate), request_id=request_id, instance=PATH)
        dress(answer, request_id)
        logs.event(
            log,
            "answered",
            request=request_id,
            method=hdrs.METH_POST,
            path=PATH,
            status=answer.status,
            **told,
        )
        return self._head.of(answer)


class _Head:
    """The heads of answers, with what is the same in all of them laid out once."""

    def __init__(self, *, secure: bool) -> None:
        self._always: dict[str, str] = {"Strict-Transport-Security": STRICT_TRANSPORT} if secure else {}
        status = HTTPStatus.ACCEPTED
        fields = {hdrs.CONTENT_TYPE: "application/json", **EVERY_ANSWER, **self._always}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._accepted = f"HTTP/1.1 {status.value} {status.phrase}\r\n{lines}"
        self._date = ""
        self._second = 0

    def accepted(self, ticket: TicketId, request_id: str, document: bytes) -> bytes:
        """Return the answer to an accepted ticket."""
        head = (
            f"{self._accepted}Date: {self._now()}\r\nRequest-Id: {request_id}\r\nLocation: {PATH}/{ticket}\r\n"
            f"Content-Length: {len(document)}\r\n\r\n"
        )
        return head.encode("ascii") + document

    def of(self, answer: web.Response) -> bytes:
        """Return an answer with what every one has."""
        content = answer.body
        assert isinstance(content, bytes)  # noqa: S101 - a problem's document
        fields = [*answer.headers.items(), *self._always.items()]
        fields += [(hdrs.DATE, self._now()), (hdrs.CONTENT_LENGTH, str(len(content)))]
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
        return f"HTTP/1.1 {answer.status} {answer.reason}\r\n{lines}\r\n".encode("latin-1") + content

    def _now(self) -> str:
        second = int(time.time())
        if second != self._second:
            self._second, self._date = second, formatdate(second, usegmt=True)
        return self._date
