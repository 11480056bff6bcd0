"""The keys of people at the desk: their file, the verb that changes it, and what their holders may do."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import api_key
from gateway.key_lines import BadKeyFile
from gateway.station import reviewer_keys
from gateway.station.__main__ import main
from gateway.station.identity import Identity, Role, Via
from gateway.station.reviewer_keys import ReviewerKey

names = st.text(st.characters(min_codepoint=33, exclude_categories=("C", "Z")), min_size=1, max_size=64)


@given(name=names, role=st.sampled_from(Role))
def test_a_line_that_was_written_reads_the_same(name: str, role: Role) -> None:
    fresh = api_key.new()
    key = ReviewerKey(id=fresh.id, name=name, role=role, sha256=fresh.digest)

    (found,) = reviewer_keys.read(f"# people\n\n{reviewer_keys.line(key)}\n")

    assert found == key
    assert reviewer_keys.read(reviewer_keys.line(key)).opens(fresh) == key
    assert reviewer_keys.read(reviewer_keys.line(key)).opens(api_key.new()) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"role": "owner"}, "role: write one of reader, reviewer, admin"),
        ({"name": "  "}, "name: write a name"),
        ({"name": "a\nb"}, "name: write a name"),
        ({"name": None}, "name: write a name"),
        ({"sha256": "lz_"}, "sha256: must be there and match"),
        ({"id": "short"}, "id: must be there and match"),
        ({"expires": "soon"}, "expires: write a date"),
        ({"client": "acme"}, "a key has nothing but"),
    ],
    ids=["role", "blank", "two lines", "nameless", "digest", "id", "expiry", "a door's key"],
)
def test_a_file_with_one_mistake_is_refused_whole(change: dict[str, object], told: str) -> None:
    fresh = api_key.new()
    line = {"id": fresh.id, "name": "ana", "role": "admin", "sha256": fresh.digest}

    with pytest.raises(BadKeyFile) as refused:
        reviewer_keys.read(json.dumps(line) + "\n" + json.dumps(line | change))

    assert told in refused.value.problems[0]
    assert refused.value.problems[0].startswith("line 2: ")


def test_an_id_that_occurs_twice_is_refused() -> None:
    fresh = api_key.new()
    line = reviewer_keys.line(ReviewerKey(id=fresh.id, name="ana", role=Role.ADMIN, sha256=fresh.digest))

    with pytest.raises(BadKeyFile, match="occurs twice"):
        reviewer_keys.read(f"{line}\n{line}")


def test_a_role_includes_those_before_it() -> None:
    assert [[role.includes(other) for other in Role] for role in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_whoever_proved_who_he_is_acts_under_that_name() -> None:
    ana = Identity(name="ana", role=Role.REVIEWER, via=Via.SESSION, key="k")
    here = Identity(name=None, role=Role.ADMIN, via=Via.LOOPBACK)

    assert ana.actor("bob") == "ana"
    assert here.actor(" bob ") == "bob"
    with pytest.raises(ValueError, match="say who you are"):
        here.actor(" ")


def _verb(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["station", "keys", *arguments])
    return main()


def test_a_key_is_made_listed_and_revoked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "desk.keys"
    monkeypatch.setenv("LAZARETTO_DESK_KEYS", str(path))

    assert _verb(monkeypatch, "new", "--name", "Ana", "--role", "reviewer", "--expires", "90d") == 0
    text = capsys.readouterr().out.strip()
    presented = api_key.read(text)
    assert presented is not None
    opened = reviewer_keys.read(path.read_text()).opens(presented)
    assert opened is not None
    assert (opened.name, opened.role) == ("Ana", Role.REVIEWER)
    assert text not in path.read_text()

    assert _verb(monkeypatch, "list", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["id"], listed["name"], listed["role"], listed["state"]) == (opened.id, "Ana", "reviewer", "valid")
    assert "sha256" not in listed
    assert _verb(monkeypatch, "list") == 0
    assert "reviewer  valid    Ana  until" in capsys.readouterr().out

    assert _verb(monkeypatch, "revoke", opened.id) == 0
    assert len(reviewer_keys.read(path.read_text())) == 0
    assert _verb(monkeypatch, "revoke", opened.id) == 1
    assert "no key" in capsys.readouterr().err


def test_without_a_file_a_key_is_printed_with_its_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _verb(monkeypatch, "new", "--name", "Ana", "--role", "reader") == 0
    text, line = capsys.readouterr().out.split()
    presented = api_key.read(text)
    assert presented is not None
    assert reviewer_keys.read(line).opens(presented) is not None
    assert _verb(monkeypatch, "list") == 1


def test_a_file_that_everybody_may_write_to_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "desk.keys"
    path.touch()
    os.chmod(path, 0o666)  # noqa: PTH101 - whatever the umask is

    assert _verb(monkeypatch, "list", "--file", str(path)) == 2
    assert "anybody could have made these keys" in capsys.readouterr().err
