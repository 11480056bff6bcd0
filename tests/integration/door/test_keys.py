"""Who may come in: keys, their scopes, their rotation without a restart, and what never leaves the door (G9, G10)."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.contract.ids import idempotent_ticket_id
from gateway.embedded import EmbeddedBroker
from tests.integration.door.conftest import StartDoor
from tests.integration.door.key_file import KeyFile, bearing
from tests.integration.door.running import TICKET, Answer, RunningDoor, start_door
from tests.support.program import ROOT, Programs
from tests.support.waiting import soon


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFile:
    """The key file of this file's door."""
    return KeyFile(tmp_path_factory.mktemp("keys") / "keys.jsonl")


@pytest.fixture(scope="module")
def door_process(
    broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory, keys: KeyFile
) -> Iterator[RunningDoor]:
    """A door that needs keys, with a store that a test may look into."""
    folder = tmp_path_factory.mktemp("door")
    programs = Programs(folder)
    yield start_door(
        programs,
        broker_url=broker.url,
        prefix=f"t{uuid4().hex[:10]}",
        data=folder / "data",
        keys=str(keys.path),
        trusted_proxies="127.0.0.0/8",
    )
    programs.close()


async def _known(door: RunningDoor, key: str) -> None:
    """Wait until the door has read the file again: a key that was added opens it."""
    await soon(lambda: _is(door, key, 202))


async def _is(door: RunningDoor, key: str, status: int) -> bool:
    return (await door.submit(**bearing(key))).status == status


def _is_problem(answer: Answer, status: int, code: str) -> bool:
    return (
        answer.status == answer.document["status"] == status
        and answer.headers["Content-Type"] == "application/problem+json"
        and answer.document["type"] == f"urn:lazaretto:problem:{code}"
    )


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Basic dTpw"}, {"Authorization": "Bearer"}, {"X-Api-Key": "lz_x"}],
    ids=["nothing", "another scheme", "no credentials", "another header"],
)
async def test_without_a_key_it_is_401_with_a_challenge(door: RunningDoor, headers: dict[str, str]) -> None:
    for method, path in (
        ("POST", "/v1/tickets"),
        ("POST", "/v1/tickets:check"),
        ("GET", "/v1/tickets/x"),
        ("GET", "/x"),
    ):
        answer = await door.ask(method, path, headers=headers)

        assert _is_problem(answer, 401, "key-required")
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="lazaretto"'
    assert await door.queued() == 0


@pytest.mark.parametrize("presented", ["lz_nonsense", "lz_abcdefghijkl_" + "a" * 49, "hunter2"])
async def test_a_key_that_opens_nothing_is_401_whatever_is_wrong_with_it(
    door: RunningDoor, keys: KeyFile, presented: str
) -> None:
    answer = await door.submit(**bearing(presented))

    assert _is_problem(answer, 401, "key-refused")
    assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    assert presented not in answer.text
    assert await door.queued() == 0


async def test_probes_limits_and_the_description_need_no_key(door: RunningDoor) -> None:
    await soon(door.is_ready)
    for path in ("/healthz", "/readyz", "/v1/limits", "/openapi.json", "/metrics"):
        assert (await door.ask("GET", path)).status == 200


async def test_the_client_of_a_key_is_on_the_ticket_and_in_its_derived_id(door: RunningDoor, keys: KeyFile) -> None:
    key = keys.add("acme")
    await _known(door, key)
    await door.take()

    answer = await door.submit(Idempotency_Key="order-1", **bearing(key))

    (message,) = await door.take()
    assert answer.document["id"] == message.correlation_id == idempotent_ticket_id("acme", "order-1")
    assert "'client': 'acme'" in str(message.headers["lz-admission"])


async def test_a_ticket_is_there_for_the_client_that_submitted_it_and_404_for_others(
    door: RunningDoor, keys: KeyFile
) -> None:
    ours, theirs = keys.add("ours"), keys.add("theirs")
    rotated = keys.add("ours")
    await _known(door, rotated)
    ticket = (await door.submit(**bearing(ours))).document["id"]

    mine = await door.ask("GET", f"/v1/tickets/{ticket}", headers=bearing(ours))
    mine_by_another_key = await door.ask("GET", f"/v1/tickets/{ticket}", headers=bearing(rotated))
    not_mine = await door.ask("GET", f"/v1/tickets/{ticket}", headers=bearing(theirs))
    nobodys = await door.ask("GET", f"/v1/tickets/{uuid4()}", headers=bearing(theirs))

    assert (mine.status, mine_by_another_key.status) == (200, 200)
    assert _is_problem(not_mine, 404, "no-such-ticket")
    assert _without_names(not_mine) == _without_names(nobodys)


async def test_the_id_of_another_clients_ticket_is_taken_whatever_it_says(door: RunningDoor, keys: KeyFile) -> None:
    ours, theirs = keys.add("ours"), keys.add("theirs")
    await _known(door, theirs)
    ticket = {**TICKET, "id": f"order-{uuid4().hex}"}
    await door.take()

    answers = [await door.submit(ticket, **bearing(key)) for key in (ours, theirs, ours)]

    assert [answer.status for answer in answers] == [202, 409, 202]
    assert _is_problem(answers[1], 409, "id-taken")
    assert await door.queued() == 1


async def test_the_same_key_of_two_clients_is_two_tickets(door: RunningDoor, keys: KeyFile) -> None:
    ours, theirs = keys.add("ours"), keys.add("theirs")
    await _known(door, theirs)
    key = uuid4().hex

    answers = [await door.submit(Idempotency_Key=key, **bearing(each)) for each in (ours, theirs)]

    assert [answer.status for answer in answers] == [202, 202]
    assert answers[0].document["id"] != answers[1].document["id"]


def _without_names(answer: Answer) -> dict[str, object]:
    return {name: value for name, value in answer.document.items() if name not in {"request_id", "instance"}}


async def test_a_key_is_for_its_kinds_only(door: RunningDoor, keys: KeyFile) -> None:
    key = keys.add("narrow", kinds=("telemetry.sample",))
    await soon(lambda: _is(door, key, 403))
    await door.take()

    refused = await door.submit(**bearing(key))
    checked = await door.ask("POST", "/v1/tickets:check", json=TICKET, headers=bearing(key))
    admitted = await door.submit({"kind": "telemetry.sample", "body": "1"}, **bearing(key))

    for answer in (refused, checked):
        assert _is_problem(answer, 403, "kind-forbidden")
        assert answer.document["kind"] == "support.ticket"
    assert admitted.status == 202
    assert await door.queued() == 1


async def test_keys_come_and_go_while_the_door_is_open(door: RunningDoor, keys: KeyFile) -> None:
    old = keys.add("rotating")
    await _known(door, old)
    new = keys.add("rotating")
    await _known(door, new)
    assert await _is(door, old, 202), "both are valid until the old one is revoked"

    keys.revoke(old)

    await soon(lambda: _is(door, old, 401))
    assert await _is(door, new, 202)


async def test_a_key_opens_until_its_date(door: RunningDoor, keys: KeyFile) -> None:
    now = datetime.now(UTC)
    valid = keys.add("dated", expires=now + timedelta(days=1))
    expired = keys.add("dated", expires=now - timedelta(seconds=1))
    await _known(door, valid)

    assert _is_problem(await door.submit(**bearing(expired)), 401, "key-refused")


async def test_a_file_with_a_mistake_is_refused_whole_and_the_old_keys_stay(door: RunningDoor, keys: KeyFile) -> None:
    key = keys.add("staying")
    await _known(door, key)
    metric = 'lazaretto_reloads_total{result="refused",what="keys"}'
    refused = await door.metric(metric)

    with keys.spoiled():
        door.program.signal(signal.SIGHUP)

        await soon(lambda: _has_grown(door, metric, refused))
        assert "reload_refused" in door.program.log
        assert await _is(door, key, 202)

    await _known(door, keys.add("staying"))


async def _has_grown(door: RunningDoor, metric: str, before: float) -> bool:
    return await door.metric(metric) > before


async def test_a_proxy_that_is_trusted_says_where_a_request_came_from(door: RunningDoor, keys: KeyFile) -> None:
    key = keys.add("far-away")
    await _known(door, key)
    await door.take(door.topology.journal_queue)

    answer = await door.submit(
        {"kind": "support.ticket", "body": ""}, X_Forwarded_For="1.2.3.4, 203.0.113.9", **bearing(key)
    )

    assert answer.status == 422
    refused = await soon(lambda: _refusals(door))
    assert (refused[0]["client"], refused[0]["address"]) == ("far-away", "203.0.113.9")
    assert "address=203.0.113.9" in door.program.log


async def _refusals(door: RunningDoor) -> list[dict[str, object]]:
    return [dict(event.data) for event in await door.events() if event.event == "refused"]


async def test_no_key_and_no_part_of_one_is_ever_written_down(door: RunningDoor, keys: KeyFile) -> None:
    good = keys.add("secretive", kinds=("telemetry.sample",))
    await soon(lambda: _is(door, good, 403))
    unknown = KeyFile(keys.path.with_name("elsewhere")).add("stranger")
    answers = [
        await door.submit(**bearing(good)),
        await door.submit(**bearing(unknown)),
        await door.submit({"kind": "telemetry.sample", "body": ""}, **bearing(good)),
        await door.ask("GET", "/v1/tickets/x", headers={"Authorization": f"Basic {good}"}),
        await door.ask("GET", "/v1/tickets/x", headers={"Authorization": f"Bearer {good}\u00ff"}),
        await door.ask("GET", "/metrics"),
    ]
    with keys.spoiled():
        await soon(lambda: "reload_refused" in door.program.log)
    events = str(await door.events())

    for key in (good, unknown):
        secret = key.split("_")[2]
        for piece in (secret, secret[:12], secret[-12:]):
            assert piece not in door.program.log
            assert piece not in events
            for answer in answers:
                assert piece not in answer.text
                assert piece not in str(answer.headers)


async def test_beyond_loopback_the_figures_need_a_key_made_for_them(start: StartDoor, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.jsonl")
    plain, watching = keys.add("acme"), keys.add("prometheus", metrics=True)
    async with await start(door="0.0.0.0:0", keys=str(keys.path)) as door:
        assert "keys_travel_in_clear" in door.program.log
        asked = [
            await door.ask("GET", "/metrics", headers=headers) for headers in ({}, bearing(plain), bearing(watching))
        ]

        assert [answer.status for answer in asked] == [401, 403, 200]
        assert _is_problem(asked[1], 403, "metrics-forbidden")
        assert (await door.ask("GET", "/readyz")).status == 200


def test_keys_that_cannot_be_read_keep_the_door_shut(
    programs: Programs, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    keys = KeyFile(tmp_path / "keys.jsonl")
    env = {"LAZARETTO_BROKER_URL": broker.url, "LAZARETTO_DATA": str(tmp_path / "data")}
    with keys.spoiled():
        for path, arguments in ((keys.path, []), (keys.path, ["--check"]), (tmp_path / "missing", [])):
            door = programs.python("door", "-m", "gateway", *arguments, env={**env, "LAZARETTO_KEYS": str(path)})
            assert door.wait() == 2
            assert f"key file {path}" in door.log


def _keys_command(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gateway", "keys", "--file", str(path), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


async def test_a_key_made_on_the_command_line_opens_a_running_door_until_it_is_revoked_there(
    door: RunningDoor, keys: KeyFile
) -> None:
    made = _keys_command(keys.path, "new", "--client", "cli", "--requests", "500/s", "--expires", "90d")
    assert made.returncode == 0, made.stderr
    key = made.stdout.strip()
    await _known(door, key)

    listed = json.loads(_keys_command(keys.path, "list", "--json").stdout)
    (shown,) = [entry for entry in listed if entry["client"] == "cli"]
    assert (shown["requests"], shown["state"]) == ("500/s", "valid")
    assert key.split("_")[2] not in _keys_command(keys.path, "list").stdout

    revoked = _keys_command(keys.path, "revoke", shown["id"])
    assert revoked.returncode == 0
    await soon(lambda: _is(door, key, 401))
    assert _keys_command(keys.path, "revoke", shown["id"]).returncode == 1


def test_the_secret_of_a_callback_is_printed_once_and_not_readable_for_everybody(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    assert _keys_command(path, "new", "--client", "other").returncode == 0
    assert path.stat().st_mode & 0o004

    made = _keys_command(path, "new", "--client", "acme", "--callback", "https://acme.example/hooks")

    assert made.returncode == 0, made.stderr
    key, secret = made.stdout.split()
    assert key.startswith("lz_")
    assert secret.startswith("whsec_")
    assert not path.stat().st_mode & 0o007
    for listed in (_keys_command(path, "list"), _keys_command(path, "list", "--json")):
        assert "https://acme.example/hooks" in listed.stdout
        assert secret not in listed.stdout
    for wrong in ("ftp://acme.example/", "https://user@acme.example/", "https:///hooks", "acme.example"):
        assert _keys_command(path, "new", "--client", "acme", "--callback", wrong).returncode == 2
    other = _keys_command(path, "new", "--client", "acme", "--callback", "https://elsewhere.example/")
    assert (other.returncode, "another callback" in other.stderr) == (2, True)


def test_a_mistake_on_the_command_line_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.jsonl"
    assert _keys_command(path, "new", "--client", "acme", "--requests", "5/s").returncode == 0
    before = path.read_bytes()

    for arguments in (
        ["new", "--client", "acme"],
        ["new", "--client", "No Name"],
        ["new", "--client", "a", "--bytes", "x"],
    ):
        assert _keys_command(path, *arguments).returncode == 2
    assert path.read_bytes() == before
