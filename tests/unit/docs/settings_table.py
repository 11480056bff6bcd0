"""The table of all settings in docs/operations.md, written from the settings models themselves.

Owns that table: `python -m tests.unit.docs.settings_table` writes it anew, and a test says when that is due. Knows the
settings by their models only, so that no name, default or meaning is kept in two places.
"""

from html import escape
from typing import Any, Final

from pydantic import BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from consumer.settings import Settings as NodeSettings
from gateway.contract import knobs
from gateway.settings import DoorSettings, StationSettings
from tests.support.program import ROOT

PAGE: Final = ROOT / "docs/operations.md"
BEGIN: Final = "<!-- settings: begin -->"
END: Final = "<!-- settings: end -->"
PROGRAMS: Final[dict[str, type[BaseSettings]]] = {
    "door": DoorSettings,
    "station": StationSettings,
    "node": NodeSettings,
}
"""In the order in which they lend a shared setting its description: the first that has it."""

_UNITS: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def fields() -> dict[str, dict[str, FieldInfo]]:
    """Return every setting's name, and by program the field that reads it."""
    found: dict[str, dict[str, FieldInfo]] = {}
    for program, model in PROGRAMS.items():
        for name, info in model.model_fields.items():
            found.setdefault(name, {})[program] = info
    return found


def default(info: FieldInfo) -> str:
    """Return a field's default as a person writes it in the environment."""
    if info.default_factory is not None:
        return "" if info.annotation is not str else "*this machine's name*"
    readers = {part.func for part in info.metadata if isinstance(part, BeforeValidator)}
    value: Any = info.default
    if knobs.duration in readers and value and value % 86400 == 0:
        return f"{value / 86400:g}d"
    if knobs.duration in readers:
        return f"{value:g}s" if value >= 1 or not value else f"{value * 1000:g}ms"
    if knobs.size in readers:
        return next((f"{value // size}{unit}" for unit, size in _UNITS if value % size == 0), str(value))
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return ",".join(value)
    return "" if value is None else str(value)


def rows() -> dict[str, str]:
    """Return the table's line for each setting, by its name in the environment."""
    found = {}
    for name, readers in sorted(fields().items()):
        first = next(iter(readers.values()))
        # A program may leave open what another has a word for: then both are said.
        defaults = dict.fromkeys(text for info in readers.values() if (text := default(info)))
        shown = " or ".join(text if text.startswith("*") else f"`{text}`" for text in defaults) or "*none*"
        variable = f"{knobs.PREFIX}{name.upper()}"
        meaning = escape(first.description or "", quote=False)
        found[variable] = f"| `{variable}` | {shown} | {', '.join(readers)} | {meaning} |"
    return found


def table() -> str:
    """Return the whole table in Markdown."""
    head = ("| setting | default | read by | meaning |", "|---|---|---|---|")
    return "\n".join((*head, *rows().values()))


def written() -> str:
    """Return the table as the page has it; raises ValueError when its marks are missing."""
    return _parts()[1].strip()


def main() -> None:
    """Write the table anew."""
    before, _, after = _parts()
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", "utf-8")


def _parts() -> tuple[str, str, str]:
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    found, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no {BEGIN} ... {END}")
    return before, found, after


if __name__ == "__main__":
    main()
