"""One log line for one event: a constant name, then fields.

Owns the escaping: whatever a ticket or an exception contains, a line stays one line of printable characters.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from gateway.contract.text import clip

_MAX_FIELD: Final = 2048
_FIELDS: Final = "lazaretto_fields"


def event(logger: logging.Logger, name: str, /, level: int = logging.INFO, **fields: Any) -> None:
    """Log the event `name` with its fields; `error=` may be an exception."""
    if logger.isEnabledFor(level):
        logger.log(level, name, extra={_FIELDS: fields})


def configure(form: str = "console", *, level: int = logging.INFO) -> None:
    """Send all logs of this process to standard error, as `console` lines or as `json` objects."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Console())
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    logging.getLogger("aio_pika").setLevel(logging.CRITICAL)


def escaped(value: Any) -> str:
    """Return a field's value as one printable word or quoted text of bounded length."""
    text = clip(f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value), _MAX_FIELD)
    shown = _one_line(text)
    return shown if shown and not set(shown) & set(' "=') else '"' + shown.replace('"', '\\"') + '"'


class _Console(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields: dict[str, Any] = getattr(record, _FIELDS, {})
        words = [moment, record.levelname.lower(), f"{record.name}:", _one_line(record.getMessage())]
        words += [f"{name}={escaped(value)}" for name, value in fields.items()]
        if record.exc_info:
            words.append("trace=" + escaped(self.formatException(record.exc_info)))
        return " ".join(words)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = getattr(record, _FIELDS, {})
        row = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **{name: _plain(value) for name, value in fields.items()},
        }
        if record.exc_info:
            row["trace"] = self.formatException(record.exc_info)
        return orjson.dumps(row, default=str).decode()


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    return clip(f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value), _MAX_FIELD)
