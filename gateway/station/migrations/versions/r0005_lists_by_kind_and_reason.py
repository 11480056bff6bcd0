"""Lists and charts of the desk are read off indexes, however much else is held."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_index("items_by_kind", "items", ["state", "kind", "arrived_at"])
    op.create_index("items_by_reason", "items", ["state", "reason", "arrived_at"])
    op.create_index("items_by_arrival", "items", ["arrived_at", "kind"])
    op.create_index("tickets_by_client", "tickets", ["client", "ticket"])
    died = sa.text("outcome IN ('crashed', 'lost', 'memory')")
    op.create_index("runs_lost", "runs", ["reported_at", "kind"], sqlite_where=died, postgresql_where=died)
