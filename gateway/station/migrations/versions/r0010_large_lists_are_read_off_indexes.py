"""What is asked of very many items and of their runs is read off indexes."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.drop_index("items_by_state", "items")
    op.create_index("items_by_state", "items", ["state", "arrived_at", "ticket", "generation", "kind", "assigned"])
    op.drop_index("items_by_cause", "items")
    op.create_index("items_by_cause", "items", ["cause", "state", "arrived_at", "build", "ticket"])
    op.create_index("items_counted", "items", ["kind", "reason"])
    fell = sa.text("outcome <> 'succeeded'")
    op.create_index(
        "runs_fell_short",
        "runs",
        ["outcome", "ticket", "generation"],
        sqlite_where=fell,
        postgresql_where=fell,
    )
