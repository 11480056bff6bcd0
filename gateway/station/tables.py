"""The station's tables, as data, and the one way its texts and documents are made storable.

Owns names and types, which SQLite and PostgreSQL both know. The exact bytes of a message are kept as bytes; a text
column only ever holds what `storable` returned.
"""

from typing import Any, Final

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

from gateway.contract.text import printable

SCHEMA_VERSION: Final = 6
"""Raised with every change of the tables; a store of another version is refused, never guessed at."""
UPGRADABLE_FROM: Final = 2
"""From this version on, every change has only added tables: such a store gets those that it lacks."""

MAX_DEPTH: Final = 64
"""Levels of a document; the broker's tables and the journal may nest deeper than any JSON writer or page can follow."""
_DEEPER: Final = "…[deeper]"

_ID: Final = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only in a column that is called INTEGER."""

metadata: Final = MetaData()

schema: Final = Table("station_schema", metadata, Column("version", Integer, primary_key=True))

tickets: Final = Table(
    "tickets",
    metadata,
    Column("ticket", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("interruptions", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("charged", BigInteger, nullable=False),
    Column("client", Text),
    Column("detail", Text),
    Column("updated_at", Float, nullable=False),
    Index("tickets_by_state", "state"),
)
"""Where each ticket stands: one row, merged by stamp and rank (P18). `charged` is what `attempts` cannot fall below."""

runs: Final = Table(
    "runs",
    metadata,
    Column("ticket", Text, primary_key=True),
    Column("generation", BigInteger, primary_key=True),
    Column("attempt", BigInteger, primary_key=True),
    Column("interruptions", BigInteger, primary_key=True),
    Column("trust", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("verdict", Text),
    Column("node", Text, nullable=False),
    Column("worker", BigInteger),
    Column("lane", Text),
    Column("started_at", Float),
    Column("seconds", Float),
    Column("delay", Float),
    Column("evidence", Text, nullable=False),
    Column("event_id", Text),
    Column("reported_at", Float, nullable=False),
)
"""How each licensed start ended. `trust` orders reports of one start: what its node saw beats what was inferred."""

items: Final = Table(
    "items",
    metadata,
    Column("ticket", Text, primary_key=True),
    Column("generation", BigInteger, primary_key=True),
    Column("came_as", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("detail", Text),
    Column("malformed", Integer, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("crashes", BigInteger, nullable=False),
    Column("interruptions", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("digest", Text, nullable=False),
    Column("properties", LargeBinary, nullable=False),
    Column("content_type", Text),
    Column("content_encoding", Text),
    Column("headers", Text, nullable=False),
    Column("admission", Text),
    Column("history_total", BigInteger, nullable=False),
    Column("spool_path", Text),
    Column("submitted_at", Float),
    Column("arrived_at", Float, nullable=False),
    Column("decided_at", Float),
    Column("decided_by", Text),
    Column("decision_reason", Text),
    Index("items_by_state", "state", "arrived_at"),
)
"""What is held aside, one row for each generation that ended here. `came_as` is the ticket id it arrived under, which
another item may have had first. `properties` holds the message's properties and
header table as AMQP bytes, so that a replay sends what came and not what a document format made of it."""

alerts: Final = Table(
    "alerts",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("ticket", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("event", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("text", Text),
    Column("created_at", Float, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("sent_at", Float),
    Column("retired_at", Float),
    Column("last_error", Text),
    UniqueConstraint("ticket", "generation", "event", "channel"),
    ForeignKeyConstraint(["ticket", "generation"], ["items.ticket", "items.generation"]),
    Index("alerts_due", "sent_at", "due_at"),
)
"""The outbox: one row for each item, event and channel, written in the transaction that makes it true.
`retired_at` marks what is owed to a channel that is configured no more."""

refusals: Final = Table(
    "refusals",
    metadata,
    Column("id", Text, primary_key=True),
    Column("at", Float, nullable=False),
    Column("ticket", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("client", Text),
    Column("bytes", BigInteger),
    Column("digest", Text),
    Column("violations", Text, nullable=False),
    Column("sample", Text),
    Index("refusals_by_time", "at"),
)
"""What door or consumer said no to."""

refusal_facts: Final = Table(
    "refusal_facts",
    metadata,
    Column("refusal", Text, primary_key=True),
    Column("facts", Text, nullable=False),
)
"""What was measured of a refused request, and the limits it was held to."""

refusal_counts: Final = Table(
    "refusal_counts",
    metadata,
    Column("rule", Text, primary_key=True),
    Column("minute", BigInteger, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Index("refusal_counts_by_minute", "minute"),
)
"""How many refusals a rule has caused, by the minute (Unix seconds of its beginning): what rates are told from."""

passes: Final = Table(
    "passes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("refusal", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("given_at", Float, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("used_at", Float),
    Column("ticket", Text),
    Index("passes_by_expiry", "expires_at"),
)
"""What reviewers let in although it was refused: one body of one client."""

notices: Final = Table(
    "notices",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("event", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("window", Float, nullable=False),
    Column("channel", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("fields", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("sent_at", Float),
    Column("last_error", Text),
    UniqueConstraint("event", "subject", "window", "channel"),
    Index("notices_due", "sent_at", "due_at"),
)
"""Alerts that are about no item: one row for each event, subject, window and channel."""

audit: Final = Table(
    "audit",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("ticket", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("act", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Index("audit_by_ticket", "ticket", "generation"),
)
"""Who did what and why; only ever added to."""

spooled: Final = Table(
    "spooled",
    metadata,
    Column("path", Text, primary_key=True),
    Column("at", Float, nullable=False),
    Column("source", Text, nullable=False),
    Column("error", Text, nullable=False),
)
"""Raw files of messages that could not be stored as they are (P19)."""


node_states: Final = Table(
    "node_states",
    metadata,
    Column("node", Text, primary_key=True),
    Column("event", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("event_id", Text, nullable=False),
    Index("node_states_by_time", "at"),
)
"""What each node last said of itself: its breakers by dependency, its storm guard, its leak hunt."""

submissions: Final = Table(
    "submissions",
    metadata,
    Column("ticket", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("held_until", Float, nullable=False),
    Column("status", Integer),
    Column("answer", LargeBinary),
    Column("expires_at", Float, nullable=False),
    Index("submissions_by_expiry", "expires_at"),
)
"""What doors took in under a key or an id of the client's own. `status` is there once the broker has it."""


callback_clients: Final = Table(
    "callback_clients",
    metadata,
    Column("client", Text, primary_key=True),
    Column("url", Text, nullable=False),
)
"""Who has a callback, as the station that serves read it last; the secrets stay in the key file."""

callbacks: Final = Table(
    "callbacks",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("ticket", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("client", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("sent_at", Float),
    Column("dead_at", Float),
    Column("last_error", Text),
    UniqueConstraint("ticket", "generation", "state"),
    Index("callbacks_due", "client", "sent_at", "dead_at", "due_at"),
)
"""What clients are told of their tickets, written in the transaction that makes it true. `dead_at` marks what a client
has not taken for too long."""


def storable(text: str | None) -> str | None:
    """Return `text` without what no store can hold: NUL and lone surrogates become U+FFFD."""
    return None if text is None else printable(text)


def document(value: object) -> str:
    """Return `value` as JSON text that every store can hold; what JSON does not know is written as its `repr`."""
    return orjson.dumps(_clean(value)).decode()


def parsed(text: str | None) -> Any:
    """Read what `document` wrote; None for a column that was never filled."""
    return None if text is None else orjson.loads(text)


def _clean(value: object, depth: int = MAX_DEPTH) -> object:
    if depth == 0 and isinstance(value, dict | list | tuple):
        return _DEEPER
    match value:
        case str():
            return printable(value)
        case bool() | None | float():
            return value
        case int():
            return value if -(2**53) < value < 2**53 else str(value)
        case bytes() | bytearray():
            return repr(bytes(value))
        case dict():
            return {printable(str(name)): _clean(item, depth - 1) for name, item in value.items()}
        case list() | tuple():
            return [_clean(item, depth - 1) for item in value]
        case _:
            return printable(repr(value))
