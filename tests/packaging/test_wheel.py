"""The wheel carries everything it needs and runs from an empty folder, with nothing of the checkout in sight."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gateway import __version__
from tests.architecture.source import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without network from a copy of what git would commit, as `pip wheel .` builds it."""
    source = tmp_path_factory.mktemp("source")
    names = [
        path.relative_to(ROOT)
        for package in ("gateway", "consumer")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    for name in [*names, Path("pyproject.toml"), Path("README.md"), Path("LICENSE")]:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    built = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(built), str(source)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = built.glob("*.whl")
    return path


def test_the_wheel_holds_every_source_and_every_data_file(wheel: Path) -> None:
    packed = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        str(path.relative_to(ROOT))
        for package in ("gateway", "consumer")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert len(expected) > 20
    assert expected - packed == set()


def test_the_wheel_holds_only_the_two_packages(wheel: Path) -> None:
    roots = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert roots == {"gateway", "consumer", f"lazaretto-{__version__}.dist-info"}


def test_all_versions_agree(wheel: Path) -> None:
    from consumer import __version__ as consumer_version  # noqa: PLC0415 - both packages call it by one name

    assert wheel.name == f"lazaretto-{__version__}-py3-none-any.whl"
    assert consumer_version == __version__


def test_the_vocabulary_in_the_wheel_counts_tokens_from_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    empty = tmp_path / "empty"
    empty.mkdir()
    zipfile.ZipFile(wheel).extractall(installed)
    # A cache folder that is empty and no network: a vocabulary that is not in the wheel cannot be found.
    environment = {**os.environ, "PYTHONPATH": str(installed), "TIKTOKEN_CACHE_DIR": str(empty)}
    script = (
        "from gateway.preflight import vocabulary\n"
        "from gateway.preflight.tokens import count\n"
        "loaded = vocabulary.Vocabulary.load('o200k_base')\n"
        "print(vocabulary.__file__, count(['hello world ' * 10], loaded, cap=100).tokens)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=empty, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    where, tokens = done.stdout.split()
    assert where.startswith(str(installed))
    assert int(tokens) == 21


@pytest.mark.parametrize("module", ["gateway", "gateway.station", "consumer", "gateway.embedded"])
def test_each_program_of_the_wheel_explains_itself_from_an_empty_folder(
    wheel: Path, tmp_path: Path, module: str
) -> None:
    installed = tmp_path / "installed"
    empty = tmp_path / "empty"
    empty.mkdir()
    zipfile.ZipFile(wheel).extractall(installed)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAZARETTO_")}
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=empty,
        env={**environment, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()
    assert list(empty.iterdir()) == []
