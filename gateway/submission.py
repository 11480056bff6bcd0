"""Submissions: how a request becomes a ticket that the broker has, or an answer that says why not.

Owns the way from request to answer. Decides nothing: preflight admits or refuses, the publisher's fate accepts.
"""

import time
from dataclasses import replace
from typing import Final, assert_never

import orjson
from aiohttp import web

from gateway import answers, caller_problems, errors, repetition_problems, request_head
from gateway.acceptance import ACCEPTED_STATUS, Accepted, NotAccepted, NotStored, StoreDown
from gateway.admission import Admitted, Mode, Refused, Rule
from gateway.amqp.fate import Fate
from gateway.body import Body, NoRoom, read_body
from gateway.callers import CALLER
from gateway.clients import Meter
from gateway.contract.envelope import Admission, Envelope
from gateway.contract.ids import TicketId, idempotent_ticket_id, is_kind, uuid7
from gateway.contract.trace_context import TraceContext
from gateway.door import DRAINING, Door
from gateway.metrics import Metrics
from gateway.preflight.contents import digest_of
from gateway.preflight.examination import Passed
from gateway.preflight.offload import Busy
from gateway.preflight.ticket import Submission, Ticket
from gateway.preflight.tokens import OutOfTime
from gateway.problem_document import Problem, violation_document
from gateway.quota import Exceeded
from gateway.refusals import Refusal
from gateway.serving import ADDRESS, REQUEST_ID, TRACE, invite, problem
from gateway.states import StatusUnavailable
from gateway.station.passes import Pass
from gateway.station.submissions import Differs, InFlight
from gateway.watch import Obstacle

ADMITTED_ANYWAY: Final = "admitted_anyway"
"""Why a ticket begins in the isolation lane: a reviewer has let in what the door had refused."""
_RETRY_UNSTORED: Final = 5
_RETRY_AFTER: Final[dict[str, int]] = {
    Fate.CLOSED: 1,
    Fate.TIMED_OUT: 1,
    Fate.DISCONNECTED: 2,
    Fate.NACKED: 2,
    Fate.UNROUTABLE: 3,
    Fate.NO_EXCHANGE: 3,
    Fate.EXCHANGE_LOST: 3,
    Fate.BLOCKED: 5,
    Fate.UNENCODABLE: 5,
    Obstacle.UNSEEN: 2,
    Obstacle.UNSETTLED: 3,
    Obstacle.QUEUE_FULL: 5,
}


class Submissions:
    """The handlers of a door's submissions."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._sizes = door.metrics.tally(door.metrics.body_bytes)

    async def submit(self, request: web.Request) -> web.StreamResponse:
        """Take a ticket in: 202 once the broker confirmed it."""
        obstacle = self._door.obstacle()
        if obstacle is not None:
            return self._end(request, closed(obstacle), outcome="unavailable")
        return await self._examined(request, publish=True)

    async def check(self, request: web.Request) -> web.StreamResponse:
        """Say what `submit` would say of the ticket itself, and publish nothing."""
        return await self._examined(request, publish=False)

    async def _examined(self, request: web.Request, *, publish: bool) -> web.StreamResponse:
        key, wrong = request_head.idempotency_key(request)
        if wrong is None and not request_head.takes_json(request):
            wrong = errors.not_acceptable()
        if wrong is None and len(request_head.kinds_beside(request)) > 1:
            wrong = errors.bad_request("The request names two kinds: once is enough, in `?kind=` or in Lazaretto-Kind.")
        if wrong is not None:
            return self._end(request, wrong, outcome="refused")
        max_bytes = self._door.limits.of(request_head.kind_beside(request)).max_body_bytes
        declared = min(request.content_length or 0, max_bytes)
        caller = request[CALLER]
        if caller.allowance is not None:
            exceeded = caller.allowance.covers(declared, time.monotonic())
            if exceeded is not None:
                return self._throttle(request, exceeded)
        with self._door.room.place() as place:
            if not self._door.room.fits(declared, unfinished=False):
                return self._end(request, errors.overloaded("inflight_bytes"), outcome="unavailable")
            await invite(request, max_bytes)
            meter = Meter(place.hold, caller.allowance)
            body = await read_body(
                request,
                max_bytes=max_bytes,
                seconds=self._door.settings.body_deadline,
                hold=meter,
            )
            match body:
                case Body():
                    return await self._judged(request, body, key, publish=publish)
                case NoRoom() if meter.exceeded is not None:
                    return self._throttle(request, meter.exceeded)
                case NoRoom():
                    return self._end(request, errors.overloaded("inflight_bytes"), outcome="unavailable")
                case Refused() if _has_left(request, body):
                    # Nobody is there to be turned away, and nothing to review.
                    return self._end(request, errors.refused(body), outcome="left")
                case Refused():
                    return self._refuse(request, body, body=None, publish=publish)
                case _:
                    assert_never(body)

    async def _judged(self, request: web.Request, body: Body, key: str | None, *, publish: bool) -> web.StreamResponse:
        self._sizes.observe(len(body.content))
        submission = Submission(
            body=body.content, content_type=request.headers.get("Content-Type"), kind=request_head.kind_beside(request)
        )
        verdict = await self._door.examiner.examine(submission, client=request[CALLER].client)
        match verdict:
            case Passed():
                return await self._passed(request, body.content, key, verdict, publish=publish)
            case Refused():
                return await self._judged_again(request, submission, verdict, key, publish=publish)
            case Busy() | OutOfTime():
                return self._end(request, errors.overloaded("preflight"), outcome="unavailable")
            case _:
                assert_never(verdict)

    async def _judged_again(
        self, request: web.Request, submission: Submission, refusal: Refused, key: str | None, *, publish: bool
    ) -> web.StreamResponse:
        """Let in what a reviewer has given a pass for, marked; refuse everything else."""
        body, client = submission.body, request[CALLER].client
        granted = self._door.passes.granted(refusal, client, body, submission.content_type)
        if granted is None:
            return self._refuse(request, refusal, body=body, publish=publish)
        softened = self._door.limits.softened(Mode.OBSERVE)
        match await self._door.examiner.examine(submission, softened, client=client):
            case Passed(ticket=Ticket(kind=kind)) as passed if kind == granted.kind:
                return await self._passed(request, body, key, passed, publish=publish, granted=granted)
            case Busy() | OutOfTime():
                return self._end(request, errors.overloaded("preflight"), outcome="unavailable")
            case _:
                return self._refuse(request, refusal, body=body, publish=publish)

    async def _passed(
        self,
        request: web.Request,
        body: bytes,
        key: str | None,
        passed: Passed,
        *,
        publish: bool,
        granted: Pass | None = None,
    ) -> web.StreamResponse:
        ticket, caller = passed.ticket, request[CALLER]
        if not caller.may_submit(ticket.kind):
            self._door.metrics.callers_refused.labels(reason="kind").inc()
            forbidden = caller_problems.kind_forbidden(ticket.kind)
            return self._end(request, forbidden, outcome="refused", kind=ticket.kind)
        if ticket.id is not None and key is not None:
            wrong = errors.bad_idempotency_key(
                "The ticket has an id of its own, which already makes a repetition safe: send the id or the key."
            )
            return self._end(request, wrong, outcome="refused", kind=ticket.kind)
        received = time.time()
        admission = admission_of(passed.admission, caller.client, received, granted)
        if not publish:
            self._count("checked", ticket.kind)
            return answers.document(answers.receipt(None, received, passed))
        is_new = ticket.id is None and key is None and granted is None
        digest = None if is_new else passed.contents or digest_of(ticket, caller.client)
        if digest is not None:
            admission = replace(admission, contents=digest)
        trace = request.get(TRACE) or TraceContext.of(request.headers)
        envelope = Envelope(
            ticket=_ticket_id(ticket, caller.client, key, granted),
            kind=ticket.kind,
            body=body,
            content_type=request.headers.get("Content-Type", "application/octet-stream"),
            submitted_at=received,
            admission=admission,
            suspect=None if granted is None else ADMITTED_ANYWAY,
            traceparent=trace.traceparent,
            tracestate=trace.tracestate,
        )
        envelope, contents = await self._door.deposits.withdraw(envelope, ticket.attachments)
        document = orjson.dumps(answers.receipt(envelope.ticket, received, passed))
        strict = key is not None or granted is not None
        outcome = await self._door.acceptance.accept(
            envelope, document, digest=digest, strict=strict, contents=contents
        )
        match outcome:
            case Accepted():
                if not outcome.again:
                    measure(self._door.metrics, passed.admission)
                return await self._accepted(envelope, outcome, named=ticket.id is not None)
            case NotAccepted():
                return self._end(request, closed(outcome.fate), outcome="unavailable", kind=ticket.kind)
            case NotStored():
                wait = errors.not_accepted("attachments", _RETRY_UNSTORED)
                return self._end(request, wait, outcome="unavailable", kind=ticket.kind)
            case StoreDown():
                return self._end(
                    request, repetition_problems.store_unavailable(), outcome="unavailable", kind=ticket.kind
                )
            case InFlight():
                wait = repetition_problems.in_flight(outcome.seconds)
                return self._end(request, wait, outcome="refused", kind=ticket.kind)
            case Differs():
                taken = repetition_problems.id_taken() if key is None else repetition_problems.key_reused()
                return self._end(request, taken, outcome="refused", kind=ticket.kind)

    async def _accepted(self, envelope: Envelope, accepted: Accepted, *, named: bool) -> web.Response:
        document = accepted.answer
        if accepted.again and named:
            # The client knows its ticket by an id of its own, and asks for it in this way, too.
            document = orjson.dumps(orjson.loads(document) | await self._state(envelope.ticket))
        self._count("repeated" if accepted.again else "accepted", envelope.kind)
        answer = answers.written(document, status=ACCEPTED_STATUS)
        answer.headers["Location"] = f"/v1/tickets/{envelope.ticket}"
        if accepted.again:
            answer.headers["Idempotency-Replayed"] = "true"
        return answer

    async def _state(self, ticket: str) -> dict[str, str]:
        try:
            found = await self._door.tickets.status(ticket)
        except StatusUnavailable:
            found = None
        return {} if found is None else {"state": found.state.value}

    def _refuse(self, request: web.Request, refusal: Refused, *, body: bytes | None, publish: bool) -> web.Response:
        what = errors.refused(refusal)
        if not publish:  # a dry run turned nobody away: nothing to review
            return self._end(request, what, outcome="checked")
        kind = refusal.facts.kind or request_head.kind_beside(request)
        for violation in refusal.violations:
            self._door.metrics.refusals.labels(rule=violation.rule, mode=Mode.ENFORCE).inc()
        self._door.refusals.record(
            Refusal(
                request_id=request[REQUEST_ID],
                client=request[CALLER].client,
                address=request[ADDRESS],
                kind=kind if kind is not None and is_kind(kind) else None,
                said_kind=request_head.kind_beside(request),
                status=what.status,
                violations=[violation_document(violation) for violation in refusal.violations],
                stage=refusal.stage,
                facts=refusal.facts,
                content_type=request.headers.get("Content-Type"),
                size=refusal.facts.bytes or request.content_length or 0,  # what was not read was at least declared
                body=body,
            )
        )
        return self._end(request, what, outcome="refused")

    def _throttle(self, request: web.Request, exceeded: Exceeded) -> web.Response:
        self._door.metrics.callers_refused.labels(reason=exceeded.policy).inc()
        return self._end(request, caller_problems.quota_exceeded(exceeded), outcome="throttled")

    def _end(self, request: web.Request, what: Problem, *, outcome: str, kind: str | None = None) -> web.Response:
        self._count(outcome, kind)
        return problem(request, what)

    def _count(self, outcome: str, kind: str | None) -> None:
        self._door.metrics.submission(outcome, kind).inc()


def closed(obstacle: Fate | Obstacle | str) -> Problem:
    """Return what a client is told about why its ticket was not taken."""
    if obstacle == DRAINING:
        return errors.draining()
    if obstacle is Fate.OVERLOADED:
        return errors.overloaded("inflight_publishes")
    return errors.not_accepted(str(obstacle), _RETRY_AFTER[obstacle])


def measure(metrics: Metrics, admission: Admitted) -> None:
    """Count what an accepted ticket was found to be."""
    for rule in admission.marked:
        metrics.refusals.labels(rule=rule, mode="margin").inc()
    for violation in admission.observed:
        metrics.refusals.labels(rule=violation.rule, mode=Mode.OBSERVE).inc()
    if admission.facts.tokens is not None:
        metrics.tally(metrics.tokens).observe(admission.facts.tokens.tokens)


def _has_left(request: web.Request, refusal: Refused) -> bool:
    broken = any(violation.rule is Rule.BODY_BROKEN for violation in refusal.violations)
    return broken and request.transport is None


def _ticket_id(ticket: Ticket, client: str, key: str | None, granted: Pass | None) -> TicketId:
    """The client's own id, else that of its pass, else the one its key stands for, else a new one.

    A pass lets one ticket in, whatever keys it is sent with.
    """
    if ticket.id is not None:
        return TicketId(ticket.id)
    if granted is not None:
        return TicketId(granted.id)
    return TicketId(uuid7()) if key is None else idempotent_ticket_id(client, key)


def admission_of(admitted: Admitted, client: str, now: float, granted: Pass | None) -> Admission:
    """Return what travels with a ticket of what was measured of it."""
    facts = admitted.facts
    return Admission(
        bytes=facts.bytes,
        charset=facts.known_charset,
        tokens=facts.counted,
        exact=facts.is_exact,
        attachments=len(facts.attachments),
        client=client,
        admitted_at=now,
        marked=admitted.rules,
        granted="" if granted is None else granted.id,
    )
