"""Operations on many items, how each replay was sent, a code on discards; the audit log takes nothing but new rows."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "operations",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=True),
        sa.Column("act", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=True),
        sa.Column("code", sa.Text(), nullable=True),
        sa.Column("pace", sa.Float(), nullable=False),
        sa.Column("canary", sa.Integer(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("started_by", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("passed_at", sa.Float(), nullable=True),
        sa.Column("ended_at", sa.Float(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("held_until", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("token", name="operations_by_token"),
    )
    op.create_index("operations_by_state", "operations", ["state", "created_at"])
    op.create_table(
        "operation_items",
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=True),
        sa.Column("at", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("operation", "position"),
        sa.UniqueConstraint("operation", "ticket", "generation", name="operation_items_once"),
    )
    op.create_index("operation_items_by_state", "operation_items", ["operation", "state", "position"])
    op.create_table(
        "replays",
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=True),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("begun_at", sa.Float(), nullable=False),
        sa.Column("in_doubt", sa.Integer(), nullable=False),
        sa.Column("confirmed_at", sa.Float(), nullable=True),
        sa.Column("content_type", sa.Text(), nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("admission", sa.Text(), nullable=True),
        sa.Column("difference", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("ticket", "generation"),
    )
    op.add_column("items", sa.Column("decision_code", sa.Text(), nullable=True))
    op.add_column("audit", sa.Column("code", sa.Text(), nullable=True))
    op.add_column("audit", sa.Column("operation", sa.Text(), nullable=True))
    # What was replayed before there was a record of it counts towards the limit, and can be resumed.
    op.execute(
        "INSERT INTO replays (ticket, generation, lane, by, begun_at, in_doubt, confirmed_at)"
        " SELECT ticket, generation, 'work', COALESCE(decided_by, ''), COALESCE(decided_at, 0), 0,"
        " CASE WHEN state = 'replayed' THEN decided_at END"
        " FROM items WHERE state IN ('replayed', 'replaying')"
    )
    for statement in _ONLY_NEW_ROWS[op.get_context().dialect.name]:
        op.execute(statement)


_REFUSE_ON_SQLITE = "BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END"
_REFUSE_ON_POSTGRESQL = """
CREATE OR REPLACE FUNCTION audit_is_only_added_to() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$
"""
_EACH_ROW = "FOR EACH ROW EXECUTE FUNCTION audit_is_only_added_to()"
_AT_ALL = "FOR EACH STATEMENT EXECUTE FUNCTION audit_is_only_added_to()"
_ONLY_NEW_ROWS = {
    "sqlite": (
        f"CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit {_REFUSE_ON_SQLITE}",
        f"CREATE TRIGGER audit_is_not_shortened BEFORE DELETE ON audit {_REFUSE_ON_SQLITE}",
    ),
    "postgresql": (
        _REFUSE_ON_POSTGRESQL,
        f"CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE ON audit {_EACH_ROW}",
        f"CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON audit {_AT_ALL}",
    ),
}
