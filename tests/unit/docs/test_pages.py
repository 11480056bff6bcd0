"""What the pages point at is there: links, files, names in files, commands, modules, and Python that can be pasted."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

from tests.support.program import ROOT
from tests.unit.docs import pages

each_page = pytest.mark.parametrize("page", pages.PAGES, ids=pages.named)

MADE_BY_READERS = {"lazaretto.toml"}
"""Files that the pages tell their reader to write."""


def _python_blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", pages.text_of(page), re.MULTILINE | re.DOTALL)


def test_the_pages_are_all_there() -> None:
    found = {pages.named(page) for page in pages.PAGES}
    assert {f"docs/{name}.md" for name in ("architecture", "protocol", "operations", "glossary")} <= found
    assert {"README.md", "CHANGELOG.md"} <= found


@each_page
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in pages.links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in pages.anchors(target), link


@each_page
def test_every_file_that_is_named_exists(page: Path) -> None:
    missing = {name for name in pages.files(page) - MADE_BY_READERS if not (ROOT / name).exists()}
    assert missing == set()


@each_page
def test_every_name_is_defined_in_the_file_it_is_said_to_be_in(page: Path) -> None:
    missing = {f"{path}::{name}" for path, name in pages.names(page) if name not in pages.defined(ROOT / path)}
    assert missing == set()


@each_page
def test_every_command_exists(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    known = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert pages.targets(page) <= known
    assert {name for name in pages.modules(page) if importlib.util.find_spec(name) is None} == set()


@each_page
def test_python_on_a_page_parses_and_imports_what_there_is(page: Path) -> None:
    for block in _python_blocks(page):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                module = importlib.import_module(node.module)
                assert [alias.name for alias in node.names if not hasattr(module, alias.name)] == []


def test_decisions_are_numbered_without_a_gap_and_say_why_what_and_what_follows() -> None:
    folder = ROOT / "docs/decisions"
    for number, page in enumerate(sorted(folder.iterdir()), start=1):
        text = page.read_text("utf-8")
        assert page.name.startswith(f"{number:04}-"), page.name
        assert text.startswith(f"# {number}. "), page.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"], page.name


def test_the_readme_fits_one_page() -> None:
    assert len(pages.text_of(ROOT / "README.md").splitlines()) <= 140
