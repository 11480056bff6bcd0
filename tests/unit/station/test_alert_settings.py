"""Mistakes in who is told are all told at once, before anything starts, and no answer quotes a secret."""

import pytest

from gateway.settings import SettingsError, StationSettings, load

SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"escalation_url": "https://help.example/hook"}, "set both or none"),
        ({"escalation_secret": SECRET}, "set both or none"),
        ({"escalation_url": "http://help.example/", "escalation_secret": SECRET}, "ESCALATION_PRIVATE=on"),
        ({"escalation_url": "ftp://help.example/", "escalation_secret": SECRET}, "https://host/path"),
        ({"escalation_url": "https://help.example/", "escalation_secret": "hunter2"}, "whsec_"),
        ({"escalation_mail": "help@desk"}, "LAZARETTO_SMTP_URL"),
        ({"escalation_mail": "help"}, "name@host"),
        ({"escalation_mail": "a@b\r\nBcc: c@d"}, "name@host"),
        ({"mail_from": "a@b,c@d"}, "one name@host"),
        ({"smtp_url": "smtp://user:hunter2@"}, "smtp://host:25"),
        ({"smtp_url": "http://user:hunter2@host"}, "smtp://host:25"),
        ({"smtp_url": "smtp://user:hunter2@host:port"}, "smtp://host:25"),
        ({"alertmanager_url": "user:hunter2@host"}, "http://host:9093"),
        ({"alertmanager_url": "http://user:hunter2@host:99999"}, "http://host:9093"),
        ({"alertmanager_expiry": "1s"}, "ALERTMANAGER_EXPIRY"),
    ],
    ids=[str(number) for number in range(15)],
)
def test_what_cannot_be_used_is_refused_with_advice(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(StationSettings, **given)
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert SECRET not in str(refused.value)


def test_both_ways_of_handing_over_are_one_too_many() -> None:
    both = {
        "escalation_url": "https://help.example/",
        "escalation_secret": SECRET,
        "escalation_mail": "help@desk",
        "smtp_url": "smtp://localhost",
    }
    with pytest.raises(SettingsError, match="handed over once"):
        load(StationSettings, **both)


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("smtp://mail", ("mail", 25, False, "", "")),
        ("smtps://a%40b:p%3Aw@mail:4650", ("mail", 4650, True, "a@b", "p:w")),
        ("smtp://[::1]:2525", ("::1", 2525, False, "", "")),
    ],
    ids=["plain", "with a password", "by address"],
)
def test_a_mail_server_is_read_from_its_url(url: str, known: tuple[str, int, bool, str, str]) -> None:
    server = load(StationSettings, smtp_url=url).mail_server
    assert server is not None
    assert (server.host, server.port, server.tls, server.user, server.password) == known
    assert server.password not in repr(server) or not server.password
