"""The verbs of reviews say what was done, and refuse with a sentence and an exit code."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.settings import StationSettings, load
from gateway.station import command_line
from tests.unit.station.patients import fall_ill, opened

BY = ("--by", "ana", "--reason", "mine")
STEPS: list[tuple[tuple[str, ...], int, str]] = [
    (("assign", "t", "--to", "ana", *BY), 0, "ticket t is ana"),
    (("assign", "t", "--to", "ben", "--from", "eve", *BY), 1, "ticket t is ana by now, not eve"),
    (("assign", "none", "--to", "ben", *BY), 1, "ticket 'none' was never in quarantine here"),
    (("assign", "t", "--to", "a\nb", *BY), 2, "a name of at most 64 bytes"),
    (("assign", "t", "--to", " ", *BY), 2, "must not be empty"),
    (("hold", "t", *BY), 0, "ticket t is on hold"),
    (("hold", "t", *BY), 1, "it is on hold since"),
    (("hold", "no/id", *BY), 1, "can be no ticket's id"),
    (("discard", "t", *BY), 1, "on hold since"),
    (("list", "--on-hold", "--owner", "ana"), 0, "t  k  held"),
    (("list", "--no-on-hold"), 0, "no such item"),
    (("release", "t", *BY), 0, "on hold no more"),
    (("release", "t", *BY), 1, "ticket t is not on hold"),
    (("note", "t", *BY), 0, "noted about t"),
    (("note", "none", *BY), 1, "nothing of 'none' was ever reported here"),
    (("groups",), 0, "1 wait of 1  k, failed: acme.Broken"),
    (("groups", "none"), 1, "no group 'none'"),
    (("why", "t"), 0, "it is ana, without a deadline"),
    (("why", "t"), 0, "note by ana"),
    (("why", "none"), 1, "no report about ticket 'none' ever arrived"),
    (("caseload",), 0, "ana: 1 unreviewed"),
    (("review", "t"), 0, "not signed; digest"),
    (("review", "none"), 1, "no report about ticket 'none' ever arrived"),
    (("review", "t", "--sign-off", "--by", "ana"), 1, "nobody signs without"),
    (("review", "t", "--sign-off", "--digest", "old", *BY), 1, "has changed: read it again"),
    (("review", "t", "--sign-off", *BY), 0, "signed by ana: mine"),
    (("assign", "t", "--back", *BY), 0, "ticket t is nobody's"),
    (("review", "t"), 0, "after sign-off  assign by ana"),
]
HOSTILE = "\x1b[2J\u202eevil\x00"


async def _run(data: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    command_line.add_verbs(parser.add_subparsers(dest="verb", required=True))
    try:
        code = await command_line.run(parser.parse_args(words), load(StationSettings, data=data))
    except SystemExit as ended:
        code = int(str(ended.code))
    told = capsys.readouterr()
    return code, told.out + told.err


async def test_each_verb_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with opened(f"sqlite+aiosqlite:///{tmp_path}/station.db") as store:
        await fall_ill(store, "t")
    for words, code, told in STEPS:
        found, said = await _run(tmp_path, capsys, *words)
        assert (found, told in said) == (code, True), (words, said)


async def test_each_verb_has_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with opened(f"sqlite+aiosqlite:///{tmp_path}/station.db") as store:
        await fall_ill(store, "t")
    found: dict[str, Any] = {}
    for words in (("assign", "t", "--to", "ana", *BY), ("note", "t", *BY), ("groups",), ("why", "t"), ("review", "t")):
        code, said = await _run(tmp_path, capsys, *words, "--json")
        assert code == 0
        found[words[0]] = json.loads(said)
    assert found["assign"] == {"verb": "assign", "by": "ana", "ticket": "t", "group": None, "owner": "ana"}
    (group,) = found["groups"]
    one = json.loads((await _run(tmp_path, capsys, "groups", group["id"], "--json"))[1])
    assert (one["id"], one["comparison"]["findings"]) == (group["id"], [])
    assert found["why"]["owner"] == "ana"
    assert [entry["what"] for entry in found["review"]["entries"]] == ["run", "arrived", "assign", "note"]
    assert json.loads((await _run(tmp_path, capsys, "caseload", "--json"))[1])["deaths"]["deaths"] == 0


async def test_hostile_words_act_on_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with opened(f"sqlite+aiosqlite:///{tmp_path}/station.db") as store:
        for number in range(4):
            await fall_ill(store, f"t{number}", evidence={"error_type": HOSTILE, "build": HOSTILE}, client=HOSTILE)
    await _run(tmp_path, capsys, "note", "t0", "--by", HOSTILE, "--reason", HOSTILE)
    await _run(tmp_path, capsys, "hold", "t0", "--by", HOSTILE, "--reason", HOSTILE)
    for words in (("groups",), ("why", "t0"), ("review", "t0"), ("caseload",), ("review", "t0", "--json")):
        code, said = await _run(tmp_path, capsys, *words)
        assert code == 0
        assert not {"\x1b", "\u202e", "\x00"} & set(said), words
