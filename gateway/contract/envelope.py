"""One item as a value, and its two directions: onto the wire and off it.

Owns every `lz-` header. Never guesses: what cannot be read for certain is `Malformed` and goes to quarantine raw.
Broker headers (`x-...`) are never read for a decision and never copied on (protocol, "One item").
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.contract import reading, unreadable
from gateway.contract.history import History
from gateway.contract.ids import UNKNOWN_KIND, TicketId, adopted_ticket_id, is_kind, is_ticket_id, uuid7
from gateway.contract.outcomes import Stamp
from gateway.contract.text import clip
from gateway.contract.trace_context import MAX_HEADER, TraceContext
from gateway.contract.values import value
from gateway.contract.wire import MAX_HEADER_BYTES, Wire, headers_size

SCHEMA: Final = 1
APP_ID: Final = "lazaretto/0.1"

MAX_SPENT: Final = 2**53

_MAX_DETAIL: Final = 1024
_MAX_CODE: Final = 64
_MAX_MARKED: Final = 160
_MAX_FOLDER: Final = 161
_MAX_FOREIGN: Final = 1024
_MAX_RAW_HEADERS: Final = 4096
_MAX_FIGURE: Final = 2**53
"""Largest number in a table; beyond it, codecs begin to disagree."""


@value(frozen=True, slots=True, kw_only=True)
class Admission:
    """What was measured at the door, or by the consumer for an item that came past it (G7)."""

    bytes: int
    charset: str
    tokens: int
    exact: bool
    attachments: int
    client: str
    """Empty when the fleet measured it: the item came past the door."""
    admitted_at: float
    """Unix seconds."""
    marked: tuple[str, ...] = ()
    """Rules that it breaks, or may break, and that did not keep it out."""
    granted: str = ""
    """The pass that let it in although it was refused; empty for all others. Who gave it and why, the station knows."""
    stored: str = ""
    """The folder of the depot with those of its attachments that are not in its body; empty where all are."""
    contents: str = ""
    """SHA-256 of what the client said, however that was wrapped, where the same ticket may be submitted again."""


@value(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens and money that earlier runs reported; sums stay within what every codec can write."""

    tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(tokens=min(self.tokens + other.tokens, MAX_SPENT), usd=min(self.usd + other.usd, float(MAX_SPENT)))


UNSPENT: Final = Spent()
UNRUN: Final = History()

_OURS: Final = frozenset(
    {
        *("lz-schema", "lz-attempt", "lz-crashes", "lz-interruptions", "lz-generation", "lz-waits", "lz-waiting-since"),
        *("lz-loss", "lz-spent", "lz-admission", "lz-history", "lz-suspect", "lz-reason", "lz-detail", "lz-truncated"),
        *("traceparent", "tracestate"),
    }
)
"""Every header that is written here: a message that has no others has nothing of a stranger's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """That somebody who held this message has vanished, and what is to be known to judge why (P8).

    A message that carries one licenses no run: its number is decided when the loss is judged.
    """

    holder: str
    """The node that started the run."""
    beat: float
    """The holder's last sign of life in the store when the loss was seen, Unix seconds; 0 where it had none."""
    at: float
    """When the loss was seen, Unix seconds on the clock of whoever saw it."""


@value(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One item: the ticket's bytes exactly as admitted, and all that is counted about it."""

    ticket: TicketId
    kind: str
    body: bytes = field(repr=False)
    content_type: str
    content_encoding: str | None = None
    submitted_at: float = 0.0
    """Unix seconds of admission; 0 when the producer did not say."""
    attempt: int = 1
    """The number of the run that this message licenses."""
    crashes: int = 0
    interruptions: int = 0
    waits: int = 0
    """How many of the interruptions were waits for a dependency: those are bounded by age, not by their number."""
    waiting_since: float = 0.0
    """Unix seconds at which the present wait for a dependency began; 0 while there is none."""
    generation: int = 0
    loss: Loss | None = None
    spent: Spent = UNSPENT
    admission: Admission | None = None
    history: History = UNRUN
    suspect: str | None = None
    reason: str | None = None
    detail: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    foreign: Mapping[str, Any] = field(default_factory=dict)
    """Headers of a producer that knows nothing of us; kept as they came, within bounds."""

    @property
    def stamp(self) -> Stamp:
        """The name of the start that this message licenses."""
        return Stamp(self.generation, self.attempt, self.interruptions)

    @property
    def trace(self) -> TraceContext:
        """The context that the message carries."""
        return TraceContext(self.traceparent, self.tracestate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A message that cannot be understood (P12); `detail` says which header and why."""

    detail: str
    ticket: TicketId
    """A name to list it under: the sender's where fit, else the body's digest."""
    kind: str
    wire: Wire = field(repr=False)


def encode(envelope: Envelope) -> Wire:
    """Return the message that carries `envelope`, with a fresh `message_id` and headers within 8 KiB.

    What had to be cut is named in `lz-truncated`, never cut silently.
    """
    cut: list[str] = []
    headers = _counted(envelope)
    counted = len(headers)
    for name, text, limit in (
        ("lz-suspect", envelope.suspect, _MAX_CODE),
        ("lz-reason", envelope.reason, _MAX_CODE),
        ("lz-detail", envelope.detail, _MAX_DETAIL),
        ("traceparent", envelope.traceparent, MAX_HEADER),
        ("tracestate", envelope.tracestate, MAX_HEADER),
    ):
        if text is None:
            continue
        headers[name] = clip(text, limit)
        if headers[name] != text:
            cut.append(name)
    if envelope.foreign:
        kept = reading.bounded(envelope.foreign, _MAX_FOREIGN)
        if len(kept) < len(envelope.foreign):
            cut.append("foreign")
        headers = {**kept, **headers}
    if cut:
        headers["lz-truncated"] = ",".join(cut)
    # A new ticket has none of the long ones, and to measure it would cost as much as to write it.
    is_short = envelope.history is UNRUN and len(headers) == counted
    if not is_short and headers_size(headers) > MAX_HEADER_BYTES:
        raise AssertionError(
            f"headers of {envelope.ticket} exceed {MAX_HEADER_BYTES} bytes: the parts' bounds are wrong"
        )
    return Wire(
        body=envelope.body,
        headers=headers,
        message_id=uuid7(),
        correlation_id=envelope.ticket,
        type=envelope.kind,
        content_type=envelope.content_type,
        content_encoding=envelope.content_encoding,
        timestamp=envelope.submitted_at or None,
        app_id=APP_ID,
    )


def encode_malformed(malformed: Malformed, *, reason: str) -> Wire:
    """Return the message that brings what could not be understood into quarantine: raw body, headers as text."""
    shown = json.dumps(dict(malformed.wire.headers), default=repr)  # not orjson: it refuses what hostile headers hold
    return Wire(
        body=malformed.wire.body,
        headers={
            "lz-schema": SCHEMA,
            "lz-reason": clip(reason, _MAX_CODE),
            "lz-detail": clip(malformed.detail, _MAX_DETAIL),
            "lz-raw-headers": clip(shown, _MAX_RAW_HEADERS),
        },
        message_id=uuid7(),
        correlation_id=malformed.ticket,
        type=malformed.kind,
        content_type=reading.short(malformed.wire.content_type),
        content_encoding=reading.short(malformed.wire.content_encoding),
        timestamp=malformed.wire.timestamp,
        app_id=APP_ID,
    )


def decode(wire: Wire) -> Envelope | Malformed:
    """Read one message: an envelope, an adopted stranger (P14), or `Malformed`; raises nothing."""
    if "lz-schema" not in wire.headers and not any(name.startswith("lz-") for name in wire.headers):
        return _adopt(wire)
    try:
        return _read(wire)
    except reading.Unreadable as error:
        return malformed_by(wire, str(error))


def malformed_by(wire: Wire, detail: str) -> Malformed:
    """Return a message as malformed for the reason that `detail` says."""
    return Malformed(detail=detail, ticket=_name(wire), kind=_kind(wire), wire=wire)


def supersede(envelope: Envelope, **changes: Any) -> Envelope:
    """Return the next message of the same item; what belonged to a past quarantine or loss does not travel on."""
    return replace(envelope, **{"reason": None, "detail": None, "loss": None, **changes})


def _read(wire: Wire) -> Envelope:
    headers = wire.headers
    if unreadable.MARK in headers:
        raise reading.Unreadable("its properties cannot be decoded")
    schema = headers.get("lz-schema")
    if schema != SCHEMA or isinstance(schema, bool):
        raise reading.Unreadable(f"lz-schema is {schema!r}, this version reads {SCHEMA}")
    if wire.correlation_id is None or not is_ticket_id(wire.correlation_id):
        raise reading.Unreadable(f"correlation_id {wire.correlation_id!r} is no ticket id")
    if wire.type is None or not is_kind(wire.type):
        raise reading.Unreadable(f"type {wire.type!r} is no kind")
    loss = reading.table(headers, "lz-loss")
    spent = reading.table(headers, "lz-spent")
    admission = reading.table(headers, "lz-admission")
    history = reading.text(headers, "lz-history")
    try:
        return Envelope(
            ticket=TicketId(wire.correlation_id),
            kind=wire.type,
            body=wire.body,
            content_type=reading.short(wire.content_type) or "application/octet-stream",
            content_encoding=reading.short(wire.content_encoding),
            submitted_at=wire.timestamp or 0.0,
            attempt=reading.count(headers, "lz-attempt", least=1),
            crashes=reading.count(headers, "lz-crashes"),
            interruptions=reading.count(headers, "lz-interruptions"),
            waits=reading.count(headers, "lz-waits", unless=0),
            waiting_since=reading.figure(headers.get("lz-waiting-since", 0)) / 1000,
            generation=reading.count(headers, "lz-generation"),
            loss=None if loss is None else _loss(loss),
            spent=UNSPENT if spent is None else _spent(spent),
            admission=None if admission is None else _admission(admission),
            history=UNRUN if history is None else History.decode(history),
            suspect=reading.text(headers, "lz-suspect"),
            reason=reading.text(headers, "lz-reason"),
            detail=reading.text(headers, "lz-detail"),
            traceparent=reading.text(headers, "traceparent"),
            tracestate=reading.text(headers, "tracestate"),
            foreign={} if headers.keys() <= _OURS else reading.foreign(headers),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise reading.Unreadable(f"unreadable header: {type(error).__name__}: {error}") from error


def _adopt(wire: Wire) -> Envelope:
    return Envelope(
        ticket=adopted_ticket_id(correlation_id=wire.correlation_id, message_id=wire.message_id, body=wire.body),
        kind=_kind(wire),
        body=wire.body,
        content_type=reading.short(wire.content_type) or "application/octet-stream",
        content_encoding=reading.short(wire.content_encoding),
        submitted_at=wire.timestamp or 0.0,
        traceparent=reading.lenient_text(wire.headers, "traceparent"),
        tracestate=reading.lenient_text(wire.headers, "tracestate"),
        foreign=reading.foreign(wire.headers),
    )


def _name(wire: Wire) -> TicketId:
    if wire.correlation_id is not None and is_ticket_id(wire.correlation_id):
        return TicketId(wire.correlation_id)
    return adopted_ticket_id(correlation_id=None, message_id=wire.message_id, body=wire.body)


def _kind(wire: Wire) -> str:
    return wire.type if wire.type is not None and is_kind(wire.type) else UNKNOWN_KIND


def _counted(envelope: Envelope) -> dict[str, Any]:
    """Return the headers that bound themselves; what is not there is left out."""
    headers: dict[str, Any] = {
        "lz-schema": SCHEMA,
        "lz-attempt": envelope.attempt,
        "lz-crashes": envelope.crashes,
        "lz-interruptions": envelope.interruptions,
        "lz-generation": envelope.generation,
    }
    if envelope.waits:
        headers["lz-waits"] = envelope.waits
    if envelope.waiting_since:
        headers["lz-waiting-since"] = round(envelope.waiting_since * 1000)
    if envelope.loss is not None:
        headers["lz-loss"] = _loss_table(envelope.loss)
    if envelope.spent is not UNSPENT and envelope.spent != UNSPENT:
        headers["lz-spent"] = {"tokens": envelope.spent.tokens, "usd": repr(float(envelope.spent.usd))}
    if envelope.admission is not None:
        headers["lz-admission"] = _admission_table(envelope.admission)
    if envelope.history.runs or envelope.history.left_out:
        headers["lz-history"] = envelope.history.encode()
    return headers


def _admission_table(admission: Admission) -> dict[str, Any]:
    """Return the table as integers and text: client libraries write a float in four bytes, and a date needs more."""
    return {
        "bytes": admission.bytes,
        "charset": clip(admission.charset, _MAX_CODE),
        "tokens": admission.tokens,
        "exact": admission.exact,
        "attachments": admission.attachments,
        "client": clip(admission.client, 128),
        "admitted-at": round(admission.admitted_at * 1000),
        **({"marked": clip(",".join(admission.marked), _MAX_MARKED)} if admission.marked else {}),
        **({"pass": clip(admission.granted, _MAX_CODE)} if admission.granted else {}),
        **({"stored": clip(admission.stored, _MAX_FOLDER)} if admission.stored else {}),
        **({"contents": clip(admission.contents, _MAX_CODE)} if admission.contents else {}),
    }


def _admission(table: Mapping[str, Any]) -> Admission:
    contents = str(table.get("contents", ""))
    if len(contents) > _MAX_CODE or not contents.isprintable():
        # It names the item in stores that take no more, and what is refused there, its neighbours are refused with.
        raise ValueError("contents is no digest")
    return Admission(
        bytes=reading.figure(table["bytes"]),
        charset=str(table["charset"]),
        tokens=reading.figure(table["tokens"]),
        exact=bool(table["exact"]),
        attachments=reading.figure(table["attachments"]),
        client=str(table["client"]),
        admitted_at=reading.figure(table["admitted-at"]) / 1000,
        marked=tuple(str(table["marked"]).split(",")) if table.get("marked") else (),
        granted=str(table.get("pass", "")),
        stored=str(table.get("stored", "")),
        contents=contents,
    )


def _loss_table(loss: Loss) -> dict[str, Any]:
    return {"holder": clip(loss.holder, 128), "beat": round(loss.beat * 1000), "at": round(loss.at * 1000)}


def _loss(table: Mapping[str, Any]) -> Loss:
    holder = table["holder"]
    if not isinstance(holder, str):
        raise TypeError("holder is no name")
    return Loss(holder=holder, beat=reading.figure(table["beat"]) / 1000, at=reading.figure(table["at"]) / 1000)


def _spent(table: Mapping[str, Any]) -> Spent:
    usd = float(table["usd"])
    if not 0 <= usd <= _MAX_FIGURE:
        raise ValueError("usd is no amount")
    return Spent(tokens=reading.figure(table["tokens"]), usd=usd)
