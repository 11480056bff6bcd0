"""What is handed to people outside is on record; a notice can be retired, and an alert owed again."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "escalations",
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("sent_at", sa.Float(), nullable=True),
        sa.Column("reference", sa.Text(), nullable=True),
        sa.Column("acknowledged_at", sa.Float(), nullable=True),
        sa.Column("acknowledged_by", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["ticket", "generation"], ["items.ticket", "items.generation"], name="escalations_of_items"
        ),
        sa.PrimaryKeyConstraint("ticket", "generation"),
    )
    with op.batch_alter_table("notices") as batch:
        batch.add_column(sa.Column("retired_at", sa.Float(), nullable=True))
    with op.batch_alter_table("alerts") as batch:
        batch.add_column(sa.Column("retold", sa.Integer(), nullable=True))
