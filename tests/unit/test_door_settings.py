"""What a door cannot run with is named before it starts, and without a password."""

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
