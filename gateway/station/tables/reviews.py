"""What people are to do about what is held: whose it is, what they wrote down, what must wait, what they signed."""

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Index, Table, Text

from gateway.station.tables.metadata import NUMBER, metadata

duties: Final = Table(
    "duties",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("review_within", Float, nullable=False),
)
"""Whose each kind is and within how many seconds it is to be decided, as the station that serves read it last. The
empty kind stands for all that have no row; an empty owner is nobody, and 0 seconds is no deadline."""

holds: Final = Table(
    "holds",
    metadata,
    Column("ticket", Text, primary_key=True),
    Column("by", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("since", Float, nullable=False),
)
"""What must wait: nobody replays, discards or removes anything of this ticket until somebody ends it. The ticket need
not be here, or known at all."""

notes: Final = Table(
    "notes",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("by", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("ticket", Text),
    Column("generation", BigInteger),
    Column("cause", Text),
    Index("notes_by_ticket", "ticket"),
    Index("notes_by_cause", "cause"),
)
"""What people wrote down, about a ticket or about a cause; only ever added to."""

causes: Final = Table(
    "causes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("frames", Text, nullable=False),
    Column("first_at", Float, nullable=False),
)
"""What items died of. `id` is a digest of the rest; `what` is an exception's type, a signal, or what comes closest."""

sign_offs: Final = Table(
    "sign_offs",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("ticket", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("by", Text, nullable=False),
    Column("words", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("entries", Text, nullable=False),
    Index("sign_offs_by_ticket", "ticket"),
)
"""Who signed a ticket's record, in which words, and which entries it had: what came later is told apart by them."""
