"""The tables of schema 6, the last before there were revisions; a store of schema 2 to 5 gets those that it lacks."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_COUNTED_OUT = 7
"""What no program without revisions can work with."""


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column("id", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("act", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        if_not_exists=True,
    )
    op.create_index("audit_by_ticket", "audit", ["ticket", "generation"], if_not_exists=True)
    op.create_table(
        "callback_clients",
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("client"),
        if_not_exists=True,
    )
    op.create_table(
        "callbacks",
        sa.Column("id", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("due_at", sa.Float(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("sent_at", sa.Float(), nullable=True),
        sa.Column("dead_at", sa.Float(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("ticket", "generation", "state"),
        if_not_exists=True,
    )
    op.create_index("callbacks_due", "callbacks", ["client", "sent_at", "dead_at", "due_at"], if_not_exists=True)
    op.create_table(
        "items",
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("came_as", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("malformed", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("crashes", sa.BigInteger(), nullable=False),
        sa.Column("interruptions", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("properties", sa.LargeBinary(), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=True),
        sa.Column("content_encoding", sa.Text(), nullable=True),
        sa.Column("headers", sa.Text(), nullable=False),
        sa.Column("admission", sa.Text(), nullable=True),
        sa.Column("history_total", sa.BigInteger(), nullable=False),
        sa.Column("spool_path", sa.Text(), nullable=True),
        sa.Column("submitted_at", sa.Float(), nullable=True),
        sa.Column("arrived_at", sa.Float(), nullable=False),
        sa.Column("decided_at", sa.Float(), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decision_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("ticket", "generation"),
        if_not_exists=True,
    )
    op.create_index("items_by_state", "items", ["state", "arrived_at"], if_not_exists=True)
    op.create_table(
        "node_states",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node", "event", "subject"),
        if_not_exists=True,
    )
    op.create_index("node_states_by_time", "node_states", ["at"], if_not_exists=True)
    op.create_table(
        "notices",
        sa.Column("id", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("window", sa.Float(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("fields", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("due_at", sa.Float(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("sent_at", sa.Float(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("event", "subject", "window", "channel"),
        if_not_exists=True,
    )
    op.create_index("notices_due", "notices", ["sent_at", "due_at"], if_not_exists=True)
    op.create_table(
        "passes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("refusal", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("given_at", sa.Float(), nullable=False),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.Column("used_at", sa.Float(), nullable=True),
        sa.Column("ticket", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        if_not_exists=True,
    )
    op.create_index("passes_by_expiry", "passes", ["expires_at"], if_not_exists=True)
    op.create_table(
        "refusal_counts",
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("rule", "minute"),
        if_not_exists=True,
    )
    op.create_index("refusal_counts_by_minute", "refusal_counts", ["minute"], if_not_exists=True)
    op.create_table(
        "refusal_facts",
        sa.Column("refusal", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("refusal"),
        if_not_exists=True,
    )
    op.create_table(
        "refusals",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("violations", sa.Text(), nullable=False),
        sa.Column("sample", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        if_not_exists=True,
    )
    op.create_index("refusals_by_time", "refusals", ["at"], if_not_exists=True)
    op.create_table(
        "runs",
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("interruptions", sa.BigInteger(), nullable=False),
        sa.Column("trust", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("worker", sa.BigInteger(), nullable=True),
        sa.Column("lane", sa.Text(), nullable=True),
        sa.Column("started_at", sa.Float(), nullable=True),
        sa.Column("seconds", sa.Float(), nullable=True),
        sa.Column("delay", sa.Float(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("event_id", sa.Text(), nullable=True),
        sa.Column("reported_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("ticket", "generation", "attempt", "interruptions"),
        if_not_exists=True,
    )
    op.create_table(
        "spooled",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("at", sa.Float(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("path"),
        if_not_exists=True,
    )
    op.create_table(
        "station_schema",
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("version"),
        if_not_exists=True,
    )
    op.create_table(
        "submissions",
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("held_until", sa.Float(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("expires_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("ticket"),
        if_not_exists=True,
    )
    op.create_index("submissions_by_expiry", "submissions", ["expires_at"], if_not_exists=True)
    op.create_table(
        "tickets",
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("interruptions", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("charged", sa.BigInteger(), nullable=False),
        sa.Column("client", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("updated_at", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("ticket"),
        if_not_exists=True,
    )
    op.create_index("tickets_by_state", "tickets", ["state"], if_not_exists=True)
    op.create_table(
        "alerts",
        sa.Column("id", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("ticket", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Float(), nullable=False),
        sa.Column("due_at", sa.Float(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("sent_at", sa.Float(), nullable=True),
        sa.Column("retired_at", sa.Float(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["ticket", "generation"],
            ["items.ticket", "items.generation"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("ticket", "generation", "event", "channel"),
        if_not_exists=True,
    )
    op.create_index("alerts_due", "alerts", ["sent_at", "due_at"], if_not_exists=True)
    counted = sa.table("station_schema", sa.column("version", sa.Integer))
    op.execute(sa.delete(counted))
    op.execute(sa.insert(counted).values(version=_COUNTED_OUT))
