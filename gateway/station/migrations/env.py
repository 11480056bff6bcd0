"""What Alembic runs for each of its commands: on the connection it was given, never on one of its own."""

from alembic import context

from gateway.station import revisions, tables

_ours = tables.complete().tables


def _is_ours(name: str | None, kind: str, _parents: object) -> bool:
    # The nodes keep tables of their own in the same store.
    return kind != "table" or name in _ours


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=tables.complete(),
    version_table=revisions.history.name,
    include_name=_is_ours,
    render_as_batch=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
