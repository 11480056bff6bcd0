"""What is over goes in time: what that is judged by, and what counters have to add to the rows that are left."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "tallies",
        sa.Column("figure", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("figure", "label"),
    )
    op.add_column("callbacks", sa.Column("first_tried_at", sa.Float()))
    op.create_index("callbacks_by_sending", "callbacks", ["sent_at"])
    op.add_column("submissions", sa.Column("lease", sa.Float()))
    op.create_index("tickets_by_age", "tickets", ["updated_at"])
