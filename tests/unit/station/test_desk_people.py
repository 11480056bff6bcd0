"""Who is let in at the desk, under what name, and which changes it takes for theirs."""

import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from gateway import api_key
from gateway.key_lines import BadKeyFile
from gateway.settings import SettingsError, StationSettings, load
from gateway.station import reviewer_keys
from gateway.station.desk import routes
from gateway.station.desk.doorkeeper import Asked, Doorkeeper, Stranger
from gateway.station.desk.sessions import FormTokens, Sessions
from gateway.station.desk.sign_in import local
from gateway.station.identity import Identity, Role, Via
from gateway.station.reviewer_keys import ReviewerKey
from gateway.station.store import Store
from gateway.station.vitals import Vitals

Client = TestClient[Any, Any]


class People:
    """A key file, and the keys that only their holders have."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: dict[str, str] = {}
        self.keys: dict[str, str] = {}

    def add(self, name: str, role: Role) -> str:
        fresh = api_key.new()
        self.lines[name] = reviewer_keys.line(ReviewerKey(id=fresh.id, name=name, role=role, sha256=fresh.digest))
        self.keys[name] = fresh.text
        self.write()
        return fresh.text

    def remove(self, name: str) -> None:
        del self.lines[name]
        self.write()

    def write(self) -> None:
        self.path.write_text("\n".join(self.lines.values()))


@pytest.fixture
def people(tmp_path: Path) -> People:
    found = People(tmp_path / "desk.keys")
    found.add("Rita", Role.READER)
    found.add("Ana", Role.REVIEWER)
    found.add("Bob", Role.ADMIN)
    return found


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await Store.open(f"sqlite+aiosqlite:///{tmp_path}/station.db")
    yield opened
    await opened.close()


@pytest.fixture
async def desk(store: Store, people: People) -> AsyncIterator[Client]:
    settings = load(StationSettings, desk_keys=people.path)
    async with TestClient(TestServer(routes.application(settings, store, Vitals()))) as client:
        yield client


@pytest.fixture
async def open_desk(store: Store) -> AsyncIterator[Client]:
    async with TestClient(TestServer(routes.application(load(StationSettings), store, Vitals()))) as client:
        yield client


async def _token(desk: Client, path: str) -> str:
    async with desk.get(path) as answer:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', await answer.text())
    assert found is not None
    return found[1]


async def _sign_in(desk: Client, key: str, to: str = "/") -> Any:
    form = {"csrf": await _token(desk, "/sign-in"), "key": key, "to": to}
    return await desk.post("/sign-in", data=form, allow_redirects=False)


async def test_a_page_leads_a_stranger_to_sign_in_and_back(desk: Client, people: People) -> None:
    async with desk.get("/permissions?x=1", allow_redirects=False) as answer:
        assert answer.status == 303
        assert answer.headers["Location"] == "/sign-in?to=/permissions?x%3D1"

    answer = await _sign_in(desk, people.keys["Ana"], "/permissions?x=1")
    assert (answer.status, answer.headers["Location"]) == (303, "/permissions?x=1")
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("lz_desk=")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert people.keys["Ana"] not in cookie
    async with desk.get("/permissions") as answer:
        page = await answer.text()
    assert "<dd>Ana</dd>" in page
    assert "<dd>reviewer</dd>" in page


async def test_a_wrong_key_opens_nothing(desk: Client) -> None:
    answer = await _sign_in(desk, api_key.new().text)
    assert answer.status == 401
    assert "Set-Cookie" not in answer.headers
    assert "opens nothing here" in await answer.text()


async def test_under_tls_the_cookie_is_for_this_host_and_tls_alone(store: Store, people: People) -> None:
    settings = load(StationSettings, desk_keys=people.path, desk_url="https://127.0.0.1")
    async with TestClient(TestServer(routes.application(settings, store, Vitals()))) as desk:
        answer = await _sign_in(desk, people.keys["Ana"])
    assert answer.headers["Set-Cookie"].startswith("__Host-lz_desk=")
    assert "Secure" in answer.headers["Set-Cookie"]


async def test_signing_out_ends_the_session_also_for_whoever_kept_the_cookie(desk: Client, people: People) -> None:
    answer = await _sign_in(desk, people.keys["Rita"])
    kept = answer.cookies["lz_desk"].value
    token = await _token(desk, "/permissions")
    async with desk.post("/sign-out", data={"csrf": token}, allow_redirects=False) as answer:
        assert answer.status == 303
    async with desk.get("/permissions", cookies={"lz_desk": kept}, allow_redirects=False) as answer:
        assert answer.headers["Location"].startswith("/sign-in")


async def test_a_revoked_key_ends_its_session(desk: Client, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.station.desk.doorkeeper._LOOK_EVERY", 0.0)
    await _sign_in(desk, people.keys["Ana"])
    people.remove("Ana")
    async with desk.get("/permissions", allow_redirects=False) as answer:
        assert answer.status == 303


async def test_a_broken_key_file_leaves_the_keys_in_force(
    desk: Client, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.station.desk.doorkeeper._LOOK_EVERY", 0.0)
    people.path.write_text("nonsense")
    async with desk.get("/api/items", headers={"Authorization": f"Bearer {people.keys['Rita']}"}) as answer:
        assert answer.status == 200


async def test_documents_take_the_key_as_bearer_and_say_so(desk: Client, people: People) -> None:
    for path in ("/api/items", "/metrics"):
        async with desk.get(path) as answer:
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert answer.content_type == "application/problem+json"
            assert json.loads(await answer.text())["status"] == 401
        async with desk.get(path, headers={"Authorization": f"Bearer {people.keys['Rita']}"}) as answer:
            assert answer.status == 200
        async with desk.get(path, headers={"Authorization": f"Bearer {api_key.new().text}"}) as answer:
            assert answer.status == 401


async def test_a_fault_of_ours_is_a_page_to_people_a_document_to_programs_and_its_trace_in_the_log(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(_request: web.Request) -> web.StreamResponse:
        raise RuntimeError("a secret of the inside")

    application = routes.application(load(StationSettings), store, Vitals())
    for path in ("/wrong", "/v1/wrong"):
        application.router.add_get(path, fail)
    async with TestClient(TestServer(application)) as desk:
        async with desk.get("/wrong") as answer:
            page = await answer.text()
            assert (answer.status, answer.content_type) == (500, "text/html")
        assert "Whether a change was made is to be looked at." in page
        async with desk.get("/v1/wrong") as answer:
            assert (answer.status, answer.content_type) == (500, "application/problem+json")
            told = await answer.json()
        assert (told["type"], told["instance"]) == ("urn:lazaretto:problem:internal", "/v1/wrong")
        assert "a secret" not in page + json.dumps(told)
    assert "RuntimeError: a secret of the inside" in caplog.text


async def test_what_is_no_form_is_refused_and_nothing_is_done(open_desk: Client) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    async with open_desk.post("/items/t/discard", data=b"no boundary anywhere", headers=headers) as answer:
        assert answer.status == 400
        assert "The form cannot be read, so nothing was done." in await answer.text()


async def test_health_is_open_to_everybody(desk: Client) -> None:
    async with desk.get("/healthz") as answer:
        assert answer.status == 200


async def test_a_reader_cannot_change_anything_and_is_told_who_can(desk: Client, people: People) -> None:
    await _sign_in(desk, people.keys["Rita"])
    async with desk.post("/items/t", data={"csrf": await _token(desk, "/permissions")}) as answer:
        page = await answer.text()
    assert answer.status == 403
    assert "this takes a reviewer. Who can do it: Ana, Bob." in page


async def test_a_page_that_is_only_for_deciding_is_shown_to_no_reader(desk: Client, people: People) -> None:
    for path in ("/operations/new", "/items/t/edit"):
        for name, status in (("Rita", 403), ("Ana", 200 if path == "/operations/new" else 404)):
            async with desk.get(path, headers={"Authorization": f"Bearer {people.keys[name]}"}) as answer:
                assert answer.status == status, path


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, "another site"),
        ({"Sec-Fetch-Site": "same-site"}, "another site"),
        ({"Origin": "https://evil.example"}, "another site"),
        ({"Origin": "null"}, "another site"),
        ({}, "the form is older"),
    ],
    ids=["cross-site", "same-site", "origin", "no origin to tell", "no token"],
)
async def test_a_change_that_another_sites_page_sent_is_refused(
    open_desk: Client, headers: dict[str, str], told: str
) -> None:
    async with open_desk.post("/items/t", data={"reason": "x"}, headers=headers) as answer:
        assert answer.status == 403
        assert told in await answer.text()


async def test_another_persons_form_is_refused(desk: Client, people: People) -> None:
    await _sign_in(desk, people.keys["Bob"])
    bobs = await _token(desk, "/permissions")
    desk.session.cookie_jar.clear()
    await _sign_in(desk, people.keys["Ana"])
    async with desk.post("/sign-out", data={"csrf": bobs}) as answer:
        assert answer.status == 403


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", "/\\evil.example", "", "/a\nb"])
def test_after_signing_in_nobody_is_led_elsewhere(path: str) -> None:
    assert local(path) == "/"


async def test_a_desk_that_asks_nobody_refuses_what_came_through_a_proxy(open_desk: Client) -> None:
    async with open_desk.get("/", headers={"X-Forwarded-For": "203.0.113.9"}) as answer:
        assert answer.status == 401
        assert "LAZARETTO_DESK_KEYS" in await answer.text()


@pytest.fixture
def proxied() -> Callable[..., Identity | Stranger]:
    settings = load(StationSettings, desk_user_header="X-Forwarded-User", desk_proxies="10.0.0.0/8")
    keeper = Doorkeeper(settings)

    def identify(peer: str, **headers: str) -> Identity | Stranger:
        return keeper.identify(Asked(peer=peer, headers={name.replace("_", "-"): headers[name] for name in headers}))

    return identify


def test_a_trusted_proxy_says_who_asks_and_by_groups_what_he_may(proxied: Callable[..., Identity | Stranger]) -> None:
    told = proxied("10.1.2.3", X_Forwarded_User="ana", X_Forwarded_Groups="admin, lazaretto-reader,lazaretto-reviewer")
    assert told == Identity(name="ana", role=Role.REVIEWER, via=Via.PROXY)
    mapped = proxied("::ffff:10.1.2.3", X_Forwarded_User="ana", X_Forwarded_Groups="lazaretto-reader")
    assert mapped == Identity(name="ana", role=Role.READER, via=Via.PROXY)


def test_a_proxys_word_counts_from_nobody_else(proxied: Callable[..., Identity | Stranger]) -> None:
    groups = {"X_Forwarded_Groups": "lazaretto-admin"}
    assert proxied("192.0.2.1", X_Forwarded_User="ana", **groups) is Stranger.NOT_THROUGH_PROXY
    assert proxied("10.1.2.3", **groups) is Stranger.NOT_THROUGH_PROXY
    assert proxied("10.1.2.3", X_Forwarded_User="ana", X_Forwarded_Groups="admin") is Stranger.NO_GROUP


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"desk": "10.0.0.1:8081"}, "ask nobody who he is"),
        ({"desk": "0.0.0.0:8081", "desk_keys": "keys"}, "LAZARETTO_DESK_URL"),
        ({"desk_user_header": "X-User"}, "LAZARETTO_DESK_PROXIES"),
        ({"desk_user_header": "X User", "desk_proxies": "10.0.0.1"}, "LAZARETTO_DESK_USER_HEADER"),
    ],
    ids=["nobody asked", "no address", "no proxies", "no header"],
)
def test_a_desk_that_anybody_could_enter_does_not_start(given: dict[str, str], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        load(StationSettings, **given)


def test_beyond_loopback_a_desk_with_keys_or_a_proxy_starts() -> None:
    load(StationSettings, desk="10.0.0.1:8081", desk_keys="keys")
    load(StationSettings, desk="10.0.0.1:8081", desk_user_header="X-User", desk_proxies="10.0.0.2")


def test_a_desk_does_not_start_without_the_keys_it_is_to_ask_for(tmp_path: Path) -> None:
    with pytest.raises(BadKeyFile, match="No such file"):
        Doorkeeper(load(StationSettings, desk_keys=tmp_path / "none"))


def test_a_session_ends_by_its_time() -> None:
    now = 0.0
    sessions = Sessions(lifetime=10.0, clock=lambda: now)
    token = sessions.open("k")
    now = 9.9
    assert sessions.find(token) is not None
    now = 10.0
    assert sessions.find(token) is None


def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.station.desk.sessions.MAX_SESSIONS", 3)
    sessions = Sessions(lifetime=10.0, clock=lambda: 0.0)
    tokens = [sessions.open("k") for _ in range(5)]
    assert [sessions.find(token) is not None for token in tokens] == [False, False, True, True, True]


def test_a_token_of_a_form_fits_its_holder_and_nobody_else() -> None:
    forms = FormTokens()
    token = forms.issue("session a")
    assert forms.fits("session a", token)
    assert not forms.fits("session b", token)
    assert not forms.fits("session a", "\ud800")
    assert not FormTokens().fits("session a", token)
