"""What a private node is, computed from settings alone."""

from pathlib import Path

import pytest

from gateway.embedded import Node, NodeSettingsError

DATA = Path("/var/tmp/somewhere")


def test_the_defaults_of_the_settings_are_the_private_node() -> None:
    node = Node.from_settings({}, {})
    assert node.url == "amqp://guest:guest@127.0.0.1:5673/"
    assert node.folder == Path.cwd() / ".lazaretto" / "broker"


def test_the_environment_wins_over_the_file() -> None:
    table = {"broker_url": "amqp://127.0.0.1:1111/", "data": "/from/file"}
    node = Node.from_settings({"LAZARETTO_BROKER_URL": "amqp://localhost:2222/"}, table)
    assert (node.address, node.folder) == ("127.0.0.1:2222", Path("/from/file/broker"))


@pytest.mark.parametrize(
    "url", ["amqp://guest:guest@127.0.0.1:5673/", "amqp://u%40x:p%2Fw@127.0.0.1:5999/blue%2Fgreen"]
)
def test_a_url_survives_the_node_it_describes(url: str) -> None:
    assert Node.at(url, DATA).url == url


def test_credentials_and_vhost_of_the_url_become_the_brokers_own() -> None:
    configuration = Node.at("amqp://someone:s%26cret@127.0.0.1:5673/blue", DATA).configuration()
    assert "default_user = someone\n" in configuration
    assert "default_pass = s&cret\n" in configuration
    assert "default_vhost = blue\n" in configuration


def test_an_address_without_credentials_never_shows_them() -> None:
    assert Node.at("amqp://someone:secret@127.0.0.1:5673/", DATA).address == "127.0.0.1:5673"


@pytest.mark.parametrize(
    "url",
    [
        "amqp://[::1]:5673/",
        "amqp://broker.example:5673/",
        "amqp://0.0.0.0:5673/",
        "http://127.0.0.1:5673/",
        "127.0.0.1:5673",
        "amqp://127.0.0.1:0x/",
    ],
)
def test_anything_but_one_plain_address_on_loopback_is_refused(url: str) -> None:
    with pytest.raises(NodeSettingsError):
        Node.at(url, DATA)


@pytest.mark.parametrize("hidden", ["a%23b", "a%20b", "a%0Ab", "a%27b", "a%22b", "a%5Cb", "a%24%28b%29", "%C3%BC"])
def test_what_its_configuration_could_not_say_is_refused_and_not_repeated(hidden: str) -> None:
    for url in (
        f"amqp://u:{hidden}@127.0.0.1:5673/",
        f"amqp://{hidden}:p@127.0.0.1:5673/",
        f"amqp://127.0.0.1/{hidden}",
    ):
        with pytest.raises(NodeSettingsError) as refused:
            Node.at(url, DATA)
        assert hidden not in str(refused.value)


def test_everything_the_node_writes_lies_in_its_folder() -> None:
    node = Node.at("amqp://127.0.0.1:5673/", DATA)
    environment = node.environment(epmd_port=1, dist_port=2)
    paths = [value for value in environment.values() if value.startswith("/") and ":" not in value]
    assert len(paths) >= 8
    assert [path for path in (*paths, *map(str, node.files())) if not path.startswith(str(node.folder))] == []


def test_the_node_sees_nothing_of_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RABBITMQ_NODE_PORT", "9999")
    monkeypatch.setenv("HOME", "/home/of/the/caller")
    environment = Node.at("amqp://127.0.0.1:5673/", DATA).environment(epmd_port=1, dist_port=2)
    assert "RABBITMQ_NODE_PORT" not in environment
    assert environment["HOME"] == str(DATA / "broker" / "home")
