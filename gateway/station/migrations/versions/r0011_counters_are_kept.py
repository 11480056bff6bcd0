"""Counters are kept, indexes have what is to be done and not all that ever was, and text is searched in one of them."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_tallies = sa.table("tallies", sa.column("figure"), sa.column("label"), sa.column("number"))
_items = sa.table("items", sa.column("detail", sa.Text))
_ARRIVED = "SELECT kind, reason, COUNT(*) FROM items GROUP BY kind, reason"
_TOLD = """
SELECT channel, SUM(sent), SUM(tries) - SUM(sent) FROM (
    SELECT channel, tries, CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END + COALESCE(retold, 0) AS sent FROM alerts
    UNION ALL
    SELECT channel, tries, CASE WHEN sent_at IS NULL THEN 0 ELSE 1 END FROM notices
) AS owed GROUP BY channel
"""
_MOST = 1024
"""Bytes that an index of PostgreSQL holds beside what else is in it; the message keeps the whole of a detail."""
_KEPT = 250
"""Characters, of up to four bytes."""


def upgrade() -> None:
    connection = op.get_bind()
    for kind, reason, number in connection.execute(sa.text(_ARRIVED)).all():
        label = json.dumps([kind, reason], separators=(",", ":"), ensure_ascii=False)
        _count(connection, "quarantined", label, number)
    for channel, sent, failed in connection.execute(sa.text(_TOLD)).all():
        _count(connection, "alerts_sent", channel, sent)
        _count(connection, "alerts_failed", channel, failed)
    op.drop_index("items_counted", "items")
    _renew("items_by_removal", "items", ["removed_at", "decided_at"], "decided_at IS NOT NULL")
    for table in ("alerts", "notices"):
        _renew(f"{table}_due", table, ["channel", "due_at"], "sent_at IS NULL")
    op.drop_column("alerts", "retold")
    _cut_details(connection)
    op.create_index("items_by_text", "items", ["state", "arrived_at", "ticket", "generation", "detail"])


def _cut_details(connection: sa.Connection) -> None:
    detail = _items.c.detail
    is_postgresql = connection.dialect.name == "postgresql"
    size = sa.func.octet_length(detail) if is_postgresql else sa.func.length(sa.cast(detail, sa.LargeBinary))
    cut = sa.func.substr(detail, 1, _KEPT).concat("…[cut]")
    connection.execute(sa.update(_items).where(size > _MOST).values(detail=cut))


def _count(connection: sa.Connection, figure: str, label: str, number: int) -> None:
    """Add to what may be counted already of rows that are gone."""
    known = (_tallies.c.figure == figure, _tallies.c.label == label)
    raised = sa.update(_tallies).where(*known).values(number=_tallies.c.number + int(number))
    if number and not connection.execute(raised).rowcount:
        connection.execute(sa.insert(_tallies).values(figure=figure, label=label, number=int(number)))


def _renew(name: str, table: str, columns: list[str], which: str) -> None:
    op.drop_index(name, table)
    op.create_index(name, table, columns, sqlite_where=sa.text(which), postgresql_where=sa.text(which))
