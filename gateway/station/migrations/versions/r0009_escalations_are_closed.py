"""That people outside were told of the end of what they have is on record, so that they hear when it is open again.

Also of what is open again already.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

_TOLD = """
UPDATE escalations SET closed_at = (
    SELECT alerts.sent_at FROM alerts
    WHERE alerts.ticket = escalations.ticket AND alerts.generation = escalations.generation
        AND alerts.channel = 'escalation' AND alerts.event = 'item.resolved' AND alerts.text NOT LIKE 'not told:%'
) WHERE sent_at IS NOT NULL
"""

_IS_OPEN_AGAIN = """
EXISTS (
    SELECT 1 FROM items JOIN escalations AS told ON told.ticket = items.ticket AND told.generation = items.generation
    WHERE items.ticket = {table}.ticket AND items.generation = {table}.generation
        AND items.state IN ('held', 'replaying') AND told.closed_at IS NOT NULL
)
"""
_TELL_AGAIN = """
UPDATE alerts SET sent_at = NULL, text = NULL, retold = COALESCE(retold, 0) + 1
WHERE channel = 'escalation' AND event = 'item.quarantined' AND sent_at IS NOT NULL AND
"""
_TAKE_ON_AGAIN = "UPDATE escalations SET acknowledged_at = NULL, acknowledged_by = NULL WHERE "


def upgrade() -> None:
    with op.batch_alter_table("escalations") as batch:
        batch.add_column(sa.Column("closed_at", sa.Float(), nullable=True))
    op.execute(sa.text(_TOLD))
    op.execute(sa.text(_TELL_AGAIN + _IS_OPEN_AGAIN.format(table="alerts")))
    op.execute(sa.text(_TAKE_ON_AGAIN + _IS_OPEN_AGAIN.format(table="escalations")))
