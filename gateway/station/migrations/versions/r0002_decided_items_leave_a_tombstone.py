"""Decided items leave a tombstone."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("items", schema=None) as batch_op:
        batch_op.add_column(sa.Column("removed_at", sa.Float(), nullable=True))
        batch_op.add_column(sa.Column("removed_bytes", sa.BigInteger(), nullable=True))
        batch_op.create_index("items_by_removal", ["removed_at", "decided_at"], unique=False)
