"""Items have owners, causes, notes, holds and sign-offs; tickets keep the size and charset that they are compared by.

What the items that are there died of is found out by the station that serves, in batches: the rule is in the program
and goes on changing, and no program has to wait for it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "duties",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("review_within", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("kind"),
    )
    op.create_table(
        "holds",
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("ticket"),
    )
    op.create_table(
        "notes",
        sa.Column("id", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("ticket", sa.Text(), nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("notes_by_ticket", "notes", ["ticket"])
    op.create_index("notes_by_cause", "notes", ["cause"])
    op.create_table(
        "causes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("frames", sa.Text(), nullable=False),
        sa.Column("first_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "sign_offs",
        sa.Column("id", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("entries", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("sign_offs_by_ticket", "sign_offs", ["ticket"])
    op.add_column("audit", sa.Column("cause", sa.Text(), nullable=True))
    # Plain columns: a table that is made anew, as a batch does it, would copy every body.
    for name in ("assigned", "cause", "build"):
        op.add_column("items", sa.Column(name, sa.Text(), nullable=True))
    op.create_index("items_by_cause", "items", ["cause", "arrived_at"])
    op.add_column("tickets", sa.Column("bytes", sa.BigInteger(), nullable=True))
    op.add_column("tickets", sa.Column("charset", sa.Text(), nullable=True))
