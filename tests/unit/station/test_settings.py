"""What a station cannot run with is named before it starts, without a password, and nothing else is offered."""

import pytest

from gateway.settings import DoorSettings, SettingsError, StationSettings, help_text, load
from gateway.station.apprise_channel import AppriseChannel
from gateway.station.channels import ChannelUnusable


@pytest.mark.parametrize("model", [StationSettings, DoorSettings])
@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "postgresql+psycopg://ana:secret@host/lazaretto",  # its driver is not among the dependencies
        "postgresql://ana:secret@host/lazaretto",
        "oracle+nothing://ana:secret@host/lazaretto",
        "sqlite:///station.db",
        "sqlite+aiosqlite:///:memory:",
        "sqlite+aiosqlite://",
        "postgresql+asyncpg://ana:secret@host:port/lazaretto",
    ],
)
def test_a_store_that_cannot_be_used_is_a_mistake_in_the_settings(
    monkeypatch: pytest.MonkeyPatch, model: type[StationSettings] | type[DoorSettings], url: str
) -> None:
    monkeypatch.setenv("LAZARETTO_STORE_URL", url)
    with pytest.raises(SettingsError, match="LAZARETTO_STORE_URL") as refused:
        load(model)
    assert "secret" not in str(refused.value)


def test_a_store_in_a_file_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZARETTO_STORE_URL", "sqlite+aiosqlite:////somewhere/else.db")
    assert load(StationSettings).store == "sqlite+aiosqlite:////somewhere/else.db"


@pytest.mark.parametrize("url", ["desk.example", "http://[", "ftp://desk.example", "https://"])
def test_a_desk_address_that_no_browser_understands_is_a_mistake(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("LAZARETTO_DESK_URL", url)
    with pytest.raises(SettingsError, match="LAZARETTO_DESK_URL"):
        load(StationSettings)


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # imported by one of Apprise's plugins
@pytest.mark.parametrize("url", ["json://[secret", "nonsense://secret@x", "secret"])
def test_an_alert_url_that_cannot_be_read_does_not_tell_its_secret(url: str) -> None:
    with pytest.raises(ChannelUnusable) as refused:
        AppriseChannel(url)
    assert "secret" not in str(refused.value)


def test_the_station_offers_only_settings_that_it_obeys() -> None:
    offered = help_text(StationSettings)
    assert "LAZARETTO_DRAIN_GRACE" in offered
    assert "LAZARETTO_QUEUE_SETTLE" not in offered
    assert "LAZARETTO_NODE_NAME" not in offered
