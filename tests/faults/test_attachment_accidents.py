"""A ticket whose attachment did not travel, all the way: read, held, shown, replayed, and in accidents (G13).

The object store is a real server, and the ticket passes both lanes.
"""

import base64
import hashlib
import json
import shutil
import urllib.request
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.support.house import Answer, House, call
from tests.support.object_store import ObjectStore
from tests.support.waiting import eventually

TEXT = "größer als ein paar Zeichen\n" * 3000
CONTENT = bytes(range(256)) * 512


def _submit(house: House, kind: str, ticket: str) -> Answer:
    attached = [
        {"name": "log.txt", "content": TEXT},
        {"name": "raw.bin", "content_base64": base64.b64encode(CONTENT).decode()},
    ]
    document = {"kind": kind, "id": ticket, "body": "see the files", "attachments": attached}
    body = json.dumps(document, ensure_ascii=False).encode()
    url = f"http://127.0.0.1:{house.door_port}/v1/tickets"
    answer = call("POST", url, body, 30.0, Content_Type="application/json")
    assert answer.status == 202, answer
    return answer


def _read(house: House) -> list[Any]:
    path = Path(f"{house.starts_path}.read")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _expected(ticket: str) -> list[Any]:
    encoded = TEXT.encode()
    text = ["log.txt", "text/plain; charset=utf-8", len(encoded), hashlib.sha256(encoded).hexdigest(), TEXT[:20]]
    raw = ["raw.bin", "application/octet-stream", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), ""]
    return [ticket, text, raw]


def _download(house: House, ticket: str, generation: int, position: int) -> bytes:
    url = f"http://127.0.0.1:{house.desk_port}/items/{ticket}/{generation}/attachments/{position}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        content: bytes = answer.read()
        return content


def test_an_attachment_in_an_object_store_is_read_in_both_lanes_shown_and_replayed(
    house: House, object_store: ObjectStore
) -> None:
    house.extra |= {"LAZARETTO_ATTACHMENTS": object_store.depot(uuid4().hex), "LAZARETTO_MEMORY_LIMIT": "256MiB"}
    house.open(workers=1)
    _submit(house, "readeronce", "isolated")
    house.until("isolated", "done", 60.0)
    assert _read(house) == [_expected("isolated")]

    _submit(house, "reject", "held")
    house.until("held", "quarantined", 60.0)
    assert house.reason("held") == "rejected"
    shown = eventually(lambda: house.show("held")["attachments"], saying="its attachments are listed")
    assert [(one["name"], one["bytes"]) for one in shown] == [
        ("log.txt", len(TEXT.encode())),
        ("raw.bin", len(CONTENT)),
    ]
    assert all(one["reference"].startswith("held~") for one in shown)
    assert _download(house, "held", 0, 0) == TEXT.encode()
    assert _download(house, "held", 0, 1) == CONTENT
    listed = house.command("show", "held").stdout
    assert f"attachment  raw.bin, application/octet-stream, {len(CONTENT)} bytes, in the depot" in listed

    replayed = house.command("replay", "held", "--by", "ann", "--reason", "again")
    assert replayed.returncode == 0, replayed.stderr
    again = eventually(lambda: [item for item in house.show("held")["items"] if item["generation"] == 1], 30.0)
    assert again[0]["admission"]["stored"] == house.show("held")["items"][1]["admission"]["stored"]
    assert [one["reference"] for one in house.show("held")["attachments"]] == [one["reference"] for one in shown]


def test_a_depot_that_is_away_costs_no_attempt_and_a_lost_content_goes_to_a_person(house: House) -> None:
    house.extra |= {"LAZARETTO_BREAKER_PAUSE": "300ms", "LAZARETTO_BREAKER_PAUSE_CAP": "1s"}
    _, _, work, _ = house.open(workers=1)
    depot, away = house.folder / "data" / "attachments", house.folder / "away"
    work.terminate()
    _submit(house, "reader", "waits")
    _submit(house, "reader", "lost")
    depot.rename(away)
    house.node(workers=1)
    assert house.until("waits", "retrying", 60.0)["attempts"] == 0
    house.until("lost", "retrying", 60.0)
    (folder,) = away.glob("lost~*")
    shutil.rmtree(folder)
    away.rename(depot)

    house.until("waits", "done", 60.0)
    assert _read(house) == [_expected("waits")]
    assert set(house.runs("waits")) == {"dependency", "succeeded"}
    assert house.reason("lost") == "rejected"
    assert "is not there" in house.show("lost")["items"][0]["detail"]
