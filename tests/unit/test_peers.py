"""Whom the benchmarks measure beside the product: who there is, who was asked for, and whether they can run."""

import ast
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.peers import environment, on_redis, registry
from benchmarks.peers.registry import CONSUMERS, DOORS, STORMED, Peer, chosen
from benchmarks.peers.storming import tally
from tests.support.program import ROOT

EVERYONE = [*DOORS, *CONSUMERS]
BOTH = ["admission", "consume"]


def _names(peers: tuple[Peer, ...]) -> list[str]:
    return [peer.name for peer in peers]


def _defined(peer: Peer) -> set[str]:
    """Names at the top of a peer's module, which cannot be imported here: its packages are elsewhere."""
    tree = ast.parse((ROOT / Path(*peer.module.split("."))).with_suffix(".py").read_text("utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    targets = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    return functions | {target.id for target in targets if isinstance(target, ast.Name)}


@pytest.mark.parametrize("peers", registry.PEERS.values(), ids=registry.PEERS)
def test_no_two_peers_beside_one_benchmark_have_one_name(peers: tuple[Peer, ...]) -> None:
    assert len({peer.name for peer in peers}) == len(peers)


@pytest.mark.parametrize("peer", EVERYONE, ids=lambda peer: peer.name)
def test_a_peers_command_starts_its_module(peer: Peer) -> None:
    (named,) = [word for word in peer.command if word.startswith(peer.module)]
    module, _, variable = named.partition(":")
    assert module == peer.module
    assert not variable or variable in _defined(peer)


@pytest.mark.parametrize("peer", CONSUMERS, ids=lambda peer: peer.name)
def test_every_consumer_can_be_given_items(peer: Peer) -> None:
    assert "fill" in _defined(peer)


def test_bullmq_is_left_out_where_it_cannot_run_and_nobody_else_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert on_redis.why_missing(tmp_path) == "bullmq is left out: there is no node and no redis-server"
    for program in ("node", "redis-server"):
        (tmp_path / program).touch(0o755)
    assert on_redis.why_missing(tmp_path) == "bullmq is left out: `make peers` has not fetched it"
    (tmp_path / "bullmq").mkdir()
    assert on_redis.why_missing(tmp_path) is None
    (tmp_path / "bullmq" / "package.json").write_text('{"version": "6.7.0"}', "utf-8")
    assert on_redis.version(tmp_path) == "6.7.0"


def test_all_are_measured_unless_some_are_named() -> None:
    assert chosen(["admission", "storm", "station"], None) == {"admission": DOORS, "storm": STORMED}
    some = chosen(BOTH, " taskiq,fastapi, celery")
    assert {name: _names(peers) for name, peers in some.items()} == {
        "admission": ["fastapi"],
        "consume": ["celery", "taskiq"],
    }
    assert chosen(BOTH, "") == {"admission": (), "consume": ()}


@pytest.mark.parametrize(("benchmark", "name"), [("admission", "celery"), ("consume", "nobody"), ("station", "celery")])
def test_a_peer_that_the_benchmark_does_not_have_is_a_usage_error(
    benchmark: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([benchmark, "--tiny", "--peers", name])
    assert ended.value.code == 2
    assert f"no peer here is called {name}" in capsys.readouterr().err


def _installed(venv: Path, **versions: str) -> None:
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").touch()
    for name, version in versions.items():
        folder = venv / "lib" / "python3.11" / "site-packages" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")


def test_without_their_environment_peers_are_left_out_and_the_reason_is_told(tmp_path: Path) -> None:
    left, why = environment.runnable(registry.PEERS, tmp_path / "absent")
    assert left == {"admission": (), "consume": (), "storm": ()}
    assert why == "the peers' virtual environment is not there"
    assert environment.runnable({"admission": ()}, tmp_path / "absent") == ({"admission": ()}, None)


def test_an_environment_that_is_not_what_the_lock_pins_is_not_used(tmp_path: Path) -> None:
    _installed(tmp_path, Taskiq_Aio_Pika="0.6.1", celery="5.6.0")
    why = environment.why_unusable(tmp_path, {"taskiq-aio-pika": "0.6.1", "celery": "5.7.0"})
    assert why == "the peers' virtual environment lacks celery==5.7.0"
    assert environment.why_unusable(tmp_path, {"taskiq-aio-pika": "0.6.1", "celery": "5.6.0"}) is None


def test_the_versions_in_the_results_are_of_packages_that_are_pinned() -> None:
    pins = environment.pins(environment.LOCK.read_text("utf-8"))
    assert set(environment.MEASURED) <= pins.keys()
    assert pins["celery"]


def test_a_good_item_that_ran_twice_is_done_once_and_a_killer_never() -> None:
    runs = [("start", "a"), ("end", "a"), ("start", "b"), ("start", "a"), ("end", "a")]
    noted = [("start", "killer"), *runs, ("start", "killer")]
    assert tally(noted, "killer") == {"killer_starts": 2, "good_done": 1, "good_run_twice": 1}
