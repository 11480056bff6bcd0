"""What a door cannot run with is named before it starts, and without a password."""

from pathlib import Path

import pytest

from gateway.settings import DoorSettings, SettingsError, load


@pytest.mark.parametrize(
    "url",
    [
        "amqp://ana:secret@127.0.0.1:99999/",
        "amqp://ana:secret@127.0.0.1:port/",
        "amqp://ana:secret@127.0.0.1:0/",
        "amqp://ana:secret@[::1/",
        "amqp://ana:secret@/",
        "http://ana:secret@127.0.0.1:5672/",
        "amqp://guest:guest@127.0.0.1:5672/,amqp://ana:secret@127.0.0.1:99999/",
    ],
)
def test_a_broker_that_cannot_be_reached_under_its_url_is_a_mistake(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("LAZARETTO_BROKER_URL", url)
    with pytest.raises(SettingsError, match="LAZARETTO_BROKER_URL: write amqp") as refused:
        load(DoorSettings)
    assert "secret" not in str(refused.value)


def test_the_room_for_requests_holds_two_bodies_of_the_greatest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZARETTO_MAX_INFLIGHT_BYTES", "1MiB")
    assert load(DoorSettings).max_inflight_bytes == 1 << 20
    monkeypatch.setenv("LAZARETTO_MAX_BODY_BYTES", "513KiB")
    with pytest.raises(SettingsError, match="LAZARETTO_MAX_INFLIGHT_BYTES"):
        load(DoorSettings)


def test_the_limits_of_kinds_are_checked_with_all_the_rest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = tmp_path / "lazaretto.toml"
    monkeypatch.setenv("LAZARETTO_CONFIG", str(written))
    written.write_text('[kinds.logs]\nmax_body_bytes = "4MiB"\nmax_attempts = 1\n')
    assert load(DoorSettings).kinds == {"logs": {"max_body_bytes": "4MiB", "max_attempts": 1}}
    for table, complaint in (
        ('max_tokens = "many"', r'kinds\."logs"\.max_tokens: write a whole number'),
        ('max_body_bytes = "16MiB"', "no max_body_bytes is greater than"),
        ('max_body_bytes = "15MiB"', "LAZARETTO_MAX_INFLIGHT_BYTES: must hold at least two"),
    ):
        written.write_text(f"max_inflight_bytes = 2000000\n[kinds.logs]\n{table}\n")
        with pytest.raises(SettingsError, match=complaint):
            load(DoorSettings)
