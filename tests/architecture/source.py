"""Reads the project's own source: which modules there are and what each one imports."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gateway", "consumer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One source file under its dotted name."""

    name: str
    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text, str(self.path))

    def imports(self) -> set[str]:
        """Return the dotted names it imports anywhere, in functions too; `from a import b` counts as `a.b`."""
        return imports_of(self.tree)

    def imports_from(self, *prefixes: str) -> set[str]:
        """Return those of its imports that are, or lie in, one of the packages named."""
        return {name for name in self.imports() if within(name, *prefixes)}


def imports_of(tree: ast.Module) -> set[str]:
    """Return the dotted names that a syntax tree imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {alias.name for alias in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {f"{module}.{alias.name}" for alias in names}
            case _:
                pass
    return found


def within(name: str, *prefixes: str) -> bool:
    """Say whether a dotted name is one of `prefixes` or lies in it."""
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def modules(*packages: str) -> list[Module]:
    """Return every module of the packages (dotted names), all of ours by default."""
    found = [
        Module(name=_dotted(path), path=path, text=path.read_text("utf-8"))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    ]
    return [module for module in found if within(module.name, *(packages or PACKAGES))]


def _dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def calls(module: Module) -> Iterator[tuple[str, int]]:
    """Yield the last name of everything it calls, with the line: `a.b.c()` gives `c`."""
    yield from ((name.rpartition(".")[2], line) for name, line in full_calls(module))


def full_calls(module: Module) -> Iterator[tuple[str, int]]:
    """Yield everything it calls as it is written, with the line: `a.b.c()` gives `a.b.c`."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Call(func=called):
                yield ast.unparse(called), node.lineno
            case _:
                pass
