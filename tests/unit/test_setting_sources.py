"""Where a setting is looked for, in every program alike: arguments, then the environment, then the file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from consumer import settings as node
from gateway import settings as gateway

Read = Callable[..., Any]


def _node(**arguments: object) -> node.Settings:
    return node.load({"handler": "any:handler", **arguments})


def _door(**arguments: object) -> gateway.DoorSettings:
    return gateway.load(gateway.DoorSettings, **arguments)


def _station(**arguments: object) -> gateway.StationSettings:
    return gateway.load(gateway.StationSettings, **arguments)


every_program = pytest.mark.parametrize("read", [_door, _station, _node], ids=["door", "station", "node"])


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "written.toml"
    path.write_text("")
    monkeypatch.setenv("LAZARETTO_CONFIG", str(path))
    return path


def _said(read: Read) -> list[str]:
    with pytest.raises((gateway.SettingsError, node.SettingsInvalid)) as refused:
        read()
    error = refused.value
    return list(error.problems) if isinstance(error, gateway.SettingsError) else str(error).splitlines()


@every_program
def test_the_environment_wins_over_the_file_and_arguments_over_both(
    read: Read, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read().max_tokens == 128_000
    file.write_text("max_tokens = 1\n")
    assert read().max_tokens == 1
    monkeypatch.setenv("LAZARETTO_MAX_TOKENS", "2")
    assert read().max_tokens == 2
    assert read(max_tokens=3).max_tokens == 3


@every_program
def test_a_table_in_the_environment_is_json_and_replaces_the_one_in_the_file_whole(
    read: Read, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("[kinds.logs]\nmax_tokens = 1\n[rules]\ncontrol_characters = 'observe'\n")
    assert (read().kinds, read().rules) == ({"logs": {"max_tokens": 1}}, {"control_characters": "observe"})
    monkeypatch.setenv("LAZARETTO_KINDS", '{"mail": {"max_tokens": 2}}')
    monkeypatch.setenv("LAZARETTO_RULES", "{}")
    assert (read().kinds, read().rules) == ({"mail": {"max_tokens": 2}}, {})


@every_program
def test_what_is_wrong_in_any_place_is_told_at_once(read: Read, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('max_attachments = "some"\ndatta = "here"\n')
    monkeypatch.setenv("LAZARETTO_KINDS", '{"mail": ')
    monkeypatch.setenv("LAZARETTO_RULES", "[]")
    monkeypatch.setenv("LAZARETTO_MAX_TOKENS", "0")
    monkeypatch.setenv("LAZARETTO_DELAY_UNIT", "soon")
    monkeypatch.setenv("LAZARETTO_TYPO", "1")
    said = _said(read)
    assert sorted(line.split()[0].rstrip(":") for line in said) == [
        "LAZARETTO_DELAY_UNIT",
        "LAZARETTO_KINDS",
        "LAZARETTO_MAX_ATTACHMENTS",
        "LAZARETTO_MAX_TOKENS",
        "LAZARETTO_RULES",
        "LAZARETTO_TYPO",
        "datta",
    ]
    assert any("LAZARETTO_KINDS: Invalid JSON" in line for line in said)


@every_program
@pytest.mark.parametrize("name", ["lazaretto_max_tokens", "LAZARETTO_Max_Tokens"])
def test_another_spelling_of_a_variable_is_an_error_and_never_a_second_word_on_a_setting(
    read: Read, file: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file.write_text("max_tokens = 1\n")
    monkeypatch.setenv("LAZARETTO_MAX_TOKENS", "2")
    monkeypatch.setenv(name, "3")
    assert _said(read) == [f"{name} is no setting (see --help)"]


def test_lists_addresses_and_switches_are_written_alike_in_environment_and_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = {
        "door": "127.0.0.1:0",
        "trusted_proxies": "10.0.0.1, 10.1.0.0/16",
        "accept_detected": "on",
        "broker_url": "amqp://a:b@one/,amqp://a:b@two/",
    }
    file.write_text("".join(f"{name} = '{value}'\n" for name, value in written.items()))
    from_file = _door()
    file.write_text("")
    for name, value in written.items():
        monkeypatch.setenv(f"LAZARETTO_{name.upper()}", value)
    assert _door() == from_file
    assert from_file.trusted_proxies == ("10.0.0.1", "10.1.0.0/16")
    assert (str(from_file.door), from_file.accept_detected, len(from_file.broker_url)) == ("127.0.0.1:0", True, 2)
    monkeypatch.setenv("LAZARETTO_ALERT_URLS", "json://one, json://two")
    monkeypatch.setenv("LAZARETTO_ALERTMANAGER_URL", "http://one:9093,http://two:9093")
    station = _station()
    assert station.alert_urls == ("json://one", "json://two")
    assert station.alertmanager_url == ("http://one:9093", "http://two:9093")
