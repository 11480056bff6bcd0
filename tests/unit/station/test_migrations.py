"""The store's revisions: one line of them, what they make is what the code expects, and no store is lost on the way."""

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import make_url

from gateway.station import announcing, escalations, migrations, owed, revisions, tables, tallying
from gateway.station.arrival import MAX_DETAIL
from gateway.station.channels import Notice
from gateway.station.escalation_state import EscalationState
from gateway.station.escalations import ESCALATION
from gateway.station.holding import AlertEvent
from gateway.station.revisions import StoreVersion
from gateway.station.store import Store
from gateway.station.tables.items import items, spooled
from tests.support.program import ROOT
from tests.unit.station.items import discard, take_in

_LEGACY = Path(__file__).parent / "schema_6"
_ADDED = {
    3: ("node_states",),
    4: ("submissions",),
    5: ("refusal_facts", "refusal_counts", "passes", "notices"),
    6: ("callback_clients", "callbacks"),
}
"""What each schema had and the one before had not."""
_LATEST = max(_ADDED)


async def _differences(store: Store) -> list[object]:
    def compare(connection: sa.Connection) -> list[object]:
        compared = {"compare_server_default": True, "version_table": revisions.history.name}
        return list(compare_metadata(MigrationContext.configure(connection, opts=compared), tables.complete()))

    async with store.reading() as transaction:
        return await transaction.run_sync(compare)


async def _lay_out_as(url: str, version: int) -> None:
    """Make a store as the programs of that schema did, with one row in it."""
    store = Store.at(url)
    script = (_LEGACY / f"{store.dialect}.sql").read_text("utf-8")
    missing = [name for added, names in _ADDED.items() if added > version for name in names]
    async with store.writing() as transaction:
        for statement in script.split(";\n"):
            await transaction.exec_driver_sql(statement)
        for name in missing:
            await transaction.exec_driver_sql(f"DROP TABLE {name}")
        await transaction.exec_driver_sql(f"INSERT INTO station_schema (version) VALUES ({version})")
        await transaction.execute(sa.insert(spooled).values(path="kept", at=1.0, source="s", error="e"))
    await store.close()


async def _say(url: str, revision: str) -> None:
    store = await Store.open(url)
    async with store.writing() as transaction:
        await transaction.execute(sa.update(revisions.history).values(version_num=revision))
    await store.close()


def _station(url: str, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "LAZARETTO_STORE_URL": url}
    command = [sys.executable, "-m", "gateway.station", *words]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_revisions_are_numbers_in_one_line_that_ends_at_the_head() -> None:
    scripts = ScriptDirectory(str(migrations.SCRIPTS))
    assert scripts.get_heads() == [revisions.HEAD]
    line = [script.revision for script in scripts.walk_revisions()][::-1]
    assert line == [f"{number + 1:04}" for number in range(len(line))]
    assert [Path(script.path).name[:5] for script in scripts.walk_revisions()][::-1] == [f"r{name}" for name in line]


async def _as_it_is(store: Store) -> list[object]:
    """What the database itself says of its tables: columns, keys, indexes and triggers."""

    def look(connection: sa.Connection) -> list[object]:
        inspector = sa.inspect(connection)
        return [
            (
                name,
                sorted(map(repr, inspector.get_columns(name))),
                sorted(inspector.get_pk_constraint(name)["constrained_columns"]),
                sorted(str(index["column_names"]) for index in inspector.get_indexes(name)),
                sorted(str(key["constrained_columns"]) for key in inspector.get_foreign_keys(name)),
            )
            for name in sorted(inspector.get_table_names())
        ]

    triggers = {
        "sqlite": "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name",
        "postgresql": "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname",
    }
    async with store.reading() as transaction:
        told = (await transaction.exec_driver_sql(triggers[store.dialect])).all()
        assert told
        return [*await transaction.run_sync(look), *map(tuple, told)]


async def test_the_revisions_make_the_tables_that_the_code_expects(store_url: str) -> None:
    store = Store.at(store_url)
    async with store.altering() as transaction:
        await transaction.run_sync(migrations.upgrade)
    assert await _differences(store) == []
    assert await store.found() == revisions.Found(revision=revisions.HEAD, counted=None)
    await store.close()


async def test_an_empty_store_is_laid_out_at_once_as_the_revisions_would_have_made_it(store_url: str) -> None:
    store = await Store.open(store_url)
    assert await _differences(store) == []
    assert await store.found() == revisions.Found(revision=revisions.HEAD, counted=None)
    counted: sa.Select[int] = sa.select(sa.column("version")).select_from(sa.table("station_schema"))
    async with store.reading() as transaction:
        said = (await transaction.scalars(counted)).all()
        revised = (await transaction.execute(sa.select(revisions.history))).all()
    at_once = await _as_it_is(store)
    async with store.altering() as transaction:
        for table in reversed(tables.complete().sorted_tables):
            await transaction.execute(sa.schema.DropTable(table))
        await transaction.exec_driver_sql(f"DROP TABLE {revisions.history.name}")
    async with store.altering() as transaction:
        await transaction.run_sync(migrations.upgrade)
    async with store.reading() as transaction:
        assert (await transaction.scalars(counted)).all() == said
        assert (await transaction.execute(sa.select(revisions.history))).all() == revised
    assert await _as_it_is(store) == at_once
    await store.close()


@pytest.mark.parametrize("version", revisions.ADOPTABLE)
async def test_a_store_from_before_the_revisions_is_carried_over_by_whoever_comes_first(
    store_url: str, version: int
) -> None:
    await _lay_out_as(store_url, version)
    opened = await asyncio.gather(*(Store.open(store_url) for _ in range(3)))
    assert await _differences(opened[0]) == []
    async with opened[0].reading() as transaction:
        assert (await transaction.scalars(sa.select(spooled.c.path))).all() == ["kept"]
        counted: sa.Select[int] = sa.select(sa.column("version")).select_from(sa.table("station_schema"))
        assert (await transaction.scalars(counted)).all() == [revisions.COUNTED_OUT]
    for store in opened:
        await store.close()


@pytest.mark.parametrize("version", [1, revisions.COUNTED_OUT, 99])
async def test_a_store_that_cannot_be_carried_over_is_left_as_it_is(store_url: str, version: int) -> None:
    await _lay_out_as(store_url, _LATEST)
    store = Store.at(store_url)
    async with store.writing() as transaction:
        await transaction.exec_driver_sql(f"UPDATE station_schema SET version = {version}")
    with pytest.raises(StoreVersion, match=f"schema {version}.*LAZARETTO_STORE_URL"):
        await Store.open(store_url)
    assert await store.found() == revisions.Found(revision=None, counted=version)
    await store.close()


async def test_what_people_outside_were_told_of_before_it_was_on_record_is_told_on(store_url: str) -> None:
    store = Store.at(store_url)
    async with store.altering() as transaction:
        await transaction.run_sync(lambda connection: command.upgrade(migrations.config(connection), "0008"))
    await take_in(store, [ESCALATION], "open", "over", "again")
    for ticket in ("over", "again"):
        await discard(store, ticket)
    async with store.writing() as transaction:
        for statement in (
            "UPDATE alerts SET sent_at = 5, text = 'told'",
            "UPDATE escalations SET sent_at = 5, acknowledged_at = 6, acknowledged_by = 'ana'",
            "UPDATE items SET state = 'held', decided_at = NULL WHERE ticket = 'again'",
        ):
            await transaction.exec_driver_sql(statement)
    await store.migrate()
    states = {ticket: (await escalations.find(store, ticket))[0].state for ticket in ("open", "over", "again")}
    assert states == {
        "open": EscalationState.ACKNOWLEDGED,
        "over": EscalationState.CLOSED,
        "again": EscalationState.OWED,
    }
    due = await owed.due(store, ESCALATION, 9)
    assert [(one.about, one.event) for one in due] == [("again", AlertEvent.QUARANTINED)]
    (notice,) = await announcing.worded(store, due, ESCALATION, "http://desk")
    assert isinstance(notice, Notice)
    assert "open again" in notice.text
    await store.close()


async def test_counters_go_on_from_what_was_counted_before_they_were_kept(store_url: str) -> None:
    store = Store.at(store_url)
    async with store.altering() as transaction:
        await transaction.run_sync(lambda connection: command.upgrade(migrations.config(connection), "0010"))
    await take_in(store, ["log"], "told-twice", "owed")
    async with store.writing() as transaction:
        for statement in (
            "DELETE FROM tallies",
            "INSERT INTO tallies (figure, label, number) VALUES ('alerts_sent', 'log', 7)",
            "UPDATE alerts SET sent_at = 5, tries = 3, retold = 1 WHERE ticket = 'told-twice'",
            f"UPDATE items SET detail = '{'ß' * 2000}' WHERE ticket = 'owed'",
        ):
            await transaction.exec_driver_sql(statement)
    await store.migrate()
    async with store.reading() as transaction:
        kept = await tallying.read(transaction)
        details = (
            await transaction.execute(sa.select(items.c.ticket, items.c.kind, items.c.reason, items.c.detail))
        ).all()
    assert kept[tallying.SENT] == {"log": 7 + 2}
    assert kept[tallying.FAILED] == {"log": 1}
    assert kept[tallying.QUARANTINED] == {tallying.label(details[0].kind, details[0].reason): 2}
    (cut,) = [row.detail for row in details if row.ticket == "owed"]
    assert cut.startswith("ß" * 200)
    assert len(cut.encode()) <= MAX_DETAIL
    await store.close()


async def test_a_store_of_a_later_revision_is_refused_with_advice(store_url: str) -> None:
    await _say(store_url, "9000")
    with pytest.raises(StoreVersion, match=r"revision 9000.*restore the backup"):
        await Store.open(store_url)


def test_programs_that_start_at_once_migrate_once(store_url: str) -> None:
    asyncio.run(_lay_out_as(store_url, 2))
    programs = [_station(store_url, "migrate", "--json") for _ in range(3)]
    said = [(*program.communicate(timeout=180), program.returncode) for program in programs]
    assert [code for _, _, code in said] == [0, 0, 0], said
    assert sum("store.migrated" in errors for _, errors, _ in said) == 1, said


def test_what_would_be_migrated_is_told_and_what_cannot_be_is_an_exit_code(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/station.db"
    asyncio.run(_lay_out_as(url, 4))
    told = []
    for words in (["migrate", "--check"], ["migrate"], ["migrate", "--check"]):
        program = _station(url, *words)
        told.append((program.communicate(timeout=180)[0], program.returncode))
    assert [code for _, code in told] == [1, 0, 0]
    assert "has schema 4" in told[0][0]
    assert f"now has revision {revisions.HEAD}" in told[1][0]
    assert "this program's" in told[2][0]
    asyncio.run(_say(url, "9000"))
    refused = _station(url, "list")
    assert "revision 9000" in refused.communicate(timeout=180)[1]
    assert refused.returncode == 2


_KILLED_HALFWAY = """
import asyncio, os, signal, sys
from pathlib import Path
from gateway.station import migrations
from gateway.station.store import Store

async def main():
    store = await Store.open(sys.argv[1])
    async with store.altering() as transaction:
        await transaction.run_sync(migrations.upgrade, Path(sys.argv[2]))

asyncio.run(main())
"""

_DEADLY = """
import os, signal
from alembic import op
import sqlalchemy as sa

revision = "9000"
down_revision = "{head}"


def upgrade() -> None:
    op.create_table("half", sa.Column("made", sa.Integer))
    with op.batch_alter_table("items", recreate="{recreate}") as batch:
        batch.add_column(sa.Column("half", sa.Integer))
    op.drop_table("spooled")
    {then}
"""


def _with_another(folder: Path, *, recreate: str, then: str) -> Path:
    scripts = folder / "migrations"
    shutil.copytree(migrations.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    text = _DEADLY.format(head=revisions.HEAD, recreate=recreate, then=then)
    (scripts / "versions" / "r9000_deadly.py").write_text(text, "utf-8")
    return scripts


def _migrate(url: str, scripts: Path) -> int:
    command = [sys.executable, "-c", _KILLED_HALFWAY, url, str(scripts)]
    return subprocess.run(command, cwd=ROOT, timeout=180, check=False).returncode


def test_a_program_that_is_killed_in_a_migration_leaves_the_store_as_it_was(store_url: str, tmp_path: Path) -> None:
    is_sqlite = make_url(store_url).get_backend_name() == "sqlite"
    recreate = "always" if is_sqlite else "auto"  # SQLite's way to change a table, and the other store's
    deadly = _with_another(tmp_path / "deadly", recreate=recreate, then="os.kill(os.getpid(), signal.SIGKILL)")
    assert _migrate(store_url, deadly) == -9

    async def as_it_was() -> None:
        store = await Store.open(store_url)
        assert await _differences(store) == []
        assert await store.writable()
        await store.close()

    asyncio.run(as_it_was())
    harmless = _with_another(tmp_path / "harmless", recreate=recreate, then="pass")
    assert _migrate(store_url, harmless) == 0  # it is the signal that undid it


def test_a_store_that_is_up_to_date_is_opened_without_alembic(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/station.db"
    asyncio.run(_say(url, revisions.HEAD))
    script = (
        "import asyncio, sys\n"
        "from gateway.station.store import Store\n"
        "async def main():\n"
        f"    store = await Store.open({url!r})\n"
        "    assert await store.writable()\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
        "print('alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


async def test_a_revision_that_leaves_rows_without_what_they_refer_to_is_not_kept(tmp_path: Path) -> None:
    store = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    columns = "ticket, generation, event, channel, created_at, due_at, tries"
    owed = f"INSERT INTO alerts ({columns}) VALUES ('t', 0, 'e', 'c', 0, 0, 0)"
    scripts = _with_another(tmp_path / "broken", recreate="always", then=f'op.execute("{owed}")')
    with pytest.raises(migrations.BrokenReferences, match="refers to nothing"):
        async with store.altering() as transaction:
            await transaction.run_sync(migrations.upgrade, scripts)
    assert await store.found() == revisions.Found(revision=revisions.HEAD, counted=None)
    assert await _differences(store) == []
    await store.close()
