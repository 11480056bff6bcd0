"""When the station heard a node last is on its own clock: those of nodes differ."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    with op.batch_alter_table("node_states") as batch:
        batch.add_column(sa.Column("heard_at", sa.Float(), nullable=True))
