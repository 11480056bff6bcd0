"""Fixtures of all tests: the broker they share, one of their own, the programs they start."""

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from gateway.embedded import EmbeddedBroker
from gateway.embedded.node import SCRIPTS
from tests.support.alertmanager import RealAlertmanager, program
from tests.support.object_store import CREDENTIALS, ObjectStore
from tests.support.postgresql import Postgresql, binaries
from tests.support.program import Programs

# Two shared cores make single examples slow now and then; what a property says does not depend on it.
settings.register_profile("lazaretto", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lazaretto")

# A shell that starts this in its background has it ignore SIGINT, and every program under test would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Programs under test are started many hundred times: where this is set, each of them would compile all that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


_LONGEST_FIRST = ("faults", "benchmarks", "acceptance", "browser", "integration")
"""Folders whose files take minutes. One that is begun last is waited for by everybody else."""


def pytest_xdist_auto_num_workers() -> int:
    """Three for two cores: much of what a test of programs does is waiting, and many a wait has a deadline."""
    return 3 * len(os.sched_getaffinity(0)) // 2 or 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the longest files first where several processes share them; one by one the quick tests stay in front."""

    def turn(item: pytest.Item) -> int:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)

    if hasattr(config, "workerinput"):
        items.sort(key=turn)


def need_rabbitmq() -> None:
    """Skip at a desk, fail under CI: a suite without its broker has proven nothing."""
    if not (SCRIPTS / "rabbitmq-server").exists():
        if os.environ.get("CI"):
            pytest.fail("rabbitmq-server is not installed; run `make setup`")
        pytest.skip("rabbitmq-server is not installed; run `make setup`")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """The broker that tests share. Whoever kills, alarms or fills one takes `own_broker`."""
    need_rabbitmq()
    with EmbeddedBroker(tmp_path_factory.mktemp("broker")) as shared:
        yield shared


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A fresh broker for one test, started; the test may kill it and start it again."""
    need_rabbitmq()
    with EmbeddedBroker(tmp_path / "own") as private:
        yield private


def _need_postgresql() -> Path:
    """Skip at a desk, fail under CI, like `need_rabbitmq`."""
    programs = binaries()
    if programs is None:
        missing = "no PostgreSQL server is installed; run `make setup`"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    return programs


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Postgresql]:
    """The PostgreSQL server that tests share; each takes a database of its own, and none ends it."""
    with Postgresql(_need_postgresql()) as server:
        yield server


@pytest.fixture
def own_postgresql() -> Iterator[Postgresql]:
    """A PostgreSQL server for one test, which may end it and start it again."""
    with Postgresql(_need_postgresql()) as server:
        yield server


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """The S3 server that tests share; each takes a prefix of its own. The credentials are in the environment."""
    before = {name: os.environ.get(name) for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    with ObjectStore(tmp_path_factory.mktemp("objects") / "moto.log") as server:
        yield server
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture
def alertmanager(tmp_path: Path) -> Iterator[RealAlertmanager]:
    """An Alertmanager for one test, started; the test may kill it and start it again."""
    path = program()
    if path is None:
        missing = "prometheus-alertmanager is not installed; run `make setup-tests`"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    folder = tmp_path / "alertmanager"
    folder.mkdir()
    with RealAlertmanager(path, folder) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite+aiosqlite:///{tmp_path / 'station.db'}"
    server: Postgresql = request.getfixturevalue("postgresql")
    return server.database()


@pytest.fixture
def prefix() -> str:
    """A value for LAZARETTO_PREFIX that no other test on the shared broker uses."""
    return f"t{uuid4().hex[:10]}"


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    """Starts programs; at the end nothing of them may be left."""
    folder = tmp_path / "programs"
    folder.mkdir()
    started = Programs(folder)
    yield started
    started.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failed test what its programs said last."""
    report = yield
    started = getattr(item, "funcargs", {}).get("programs")
    if report.failed and call.when in {"call", "teardown"} and started is not None:
        report.sections += [(f"log of {program.name}", program.tail()) for program in started.started]
    return report
