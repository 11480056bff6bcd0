"""The project's pages as data: what they link to, which files, names and commands they mention.

Owns the reading of Markdown for tests. Judges nothing.
"""

import ast
import re
from pathlib import Path
from typing import Final

from tests.support.program import ROOT

PAGES: Final = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))

_FENCE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"`([^`\n]+)`")
_HEADING: Final = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_PATH: Final = re.compile(r"(?:gateway|consumer|tests|scripts|docs|\.ci)/[\w./-]*|[\w.-]+\.(?:md|toml|yaml|lock)")
_MODULE: Final = re.compile(r"python -m ([\w.]+)")
_TARGET: Final = re.compile(r"\bmake ([a-z]+)\b")


def text_of(page: Path) -> str:
    """Return a page's text."""
    return page.read_text("utf-8")


def named(page: Path) -> str:
    """Return how a page is called in a failure."""
    return str(page.relative_to(ROOT))


def links(page: Path) -> list[str]:
    """Return the targets of all relative links."""
    return [found for found in _LINK.findall(_FENCE.sub("", text_of(page))) if "://" not in found]


def anchors(page: Path) -> set[str]:
    """Return what a link may have after its `#`, as GitHub makes it from headings."""
    headings = _HEADING.findall(_FENCE.sub("", text_of(page)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def files(page: Path) -> set[str]:
    """Return the project's files and folders that inline code names, `path::name` without its name."""
    spans = (span.partition("::")[0] for span in _CODE.findall(_FENCE.sub("", text_of(page))))
    return {span for span in spans if _PATH.fullmatch(span)}


def names(page: Path) -> set[tuple[str, str]]:
    """Return what inline code writes as `path::name`: a function, class, method or constant of a module."""
    spans = (span.partition("::") for span in _CODE.findall(_FENCE.sub("", text_of(page))))
    return {(path, name) for path, mark, name in spans if mark}


def defined(path: Path) -> set[str]:
    """Return the names that a module defines; a method or field is `Class.name`."""
    found: set[str] = set()

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found.add(prefix + name)
                case ast.ClassDef(name=name):
                    found.add(prefix + name)
                    walk(node.body, f"{prefix}{name}.")
                case ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(prefix + name)
                case ast.Assign():
                    found.update(prefix + target.id for target in node.targets if isinstance(target, ast.Name))
                case _:
                    pass

    walk(ast.parse(path.read_text("utf-8")).body, "")
    return found


def modules(page: Path) -> set[str]:
    """Return what a page starts with `python -m`."""
    return set(_MODULE.findall(text_of(page)))


def targets(page: Path) -> set[str]:
    """Return what a page has `make` do; prose that makes something else stands outside of code."""
    text = text_of(page)
    spans = [*_CODE.findall(_FENCE.sub("", text)), *_FENCE.findall(text)]
    return {target for span in spans for target in _TARGET.findall(span)}
