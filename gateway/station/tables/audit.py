"""The reviewers' acts."""

from typing import Final

from sqlalchemy import DDL, BigInteger, Column, Float, Index, Table, Text, event

from gateway.station.tables.metadata import NUMBER, metadata

audit: Final = Table(
    "audit",
    metadata,
    Column("id", NUMBER, primary_key=True, autoincrement=True),
    Column("at", Float, nullable=False),
    Column("ticket", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("act", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("code", Text),
    Column("operation", Text),
    Column("cause", Text),
    Index("audit_by_ticket", "ticket", "generation"),
)
"""Who did what and why; only ever added to, which triggers in both stores see to. `code`: of a discard. `cause`:
of an act about a group."""

_REFUSED: Final = "BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END"
_FUNCTION: Final = """
CREATE OR REPLACE FUNCTION audit_is_only_added_to() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$
"""
_EACH: Final = "EXECUTE FUNCTION audit_is_only_added_to()"
_TRIGGERS: Final = {
    "sqlite": (
        f"CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit {_REFUSED}",
        f"CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit {_REFUSED}",
    ),
    "postgresql": (
        _FUNCTION,
        f"CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE ON audit FOR EACH ROW {_EACH}",
        f"CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit FOR EACH STATEMENT {_EACH}",
    ),
}
"""What makes the log one that is only added to; part of the table wherever it is made without the revisions."""
for _dialect, _statements in _TRIGGERS.items():
    for _statement in _statements:
        made = DDL(_statement).execute_if(dialect=_dialect)  # type: ignore[no-untyped-call] # has no types
        event.listen(audit, "after_create", made)
