"""One log line for one event: a constant name, then fields.

Owns the escaping: whatever a ticket or an exception contains, a line stays one line of printable characters.
"""

import logging
import re
import sys
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import orjson

from gateway.contract.text import clip

_MAX_FIELD: Final = 2048
_FIELDS: Final = "lazaretto_fields"
_WORD: Final = re.compile(rf"[!#-<>-~]{{1,{_MAX_FIELD}}}")
"""What stands in a line as it is: printable ASCII without a space, a quote or an equals sign."""


def event(logger: logging.Logger, name: str, /, level: int = logging.INFO, **fields: Any) -> None:
    """Log the event `name` with its fields; `error=` may be an exception."""
    if logger.isEnabledFor(level):
        logger.log(level, name, extra={_FIELDS: fields})


def configure(form: str = "console", *, level: int = logging.INFO) -> None:
    """Send all logs of this process to standard error, as `console` lines or as `json` objects."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(form))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    logging.getLogger("aio_pika").setLevel(logging.CRITICAL)


def formatter(form: str) -> logging.Formatter:
    """Return what writes lines of this form, `console` or `json`."""
    return _Json() if form == "json" else _Console()


def escaped(value: Any) -> str:
    """Return a field's value as one printable word or quoted text of bounded length."""
    text = f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value)
    if _WORD.fullmatch(text):
        return text
    shown = _one_line(clip(text, _MAX_FIELD))
    return shown if shown and not set(shown) & set(' "=') else '"' + shown.replace('"', '\\"') + '"'


class _Console(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = f"{_second(int(record.created))}.{int(record.msecs):03}"
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


@lru_cache(maxsize=4)
def _second(moment: int) -> str:
    """Return the time of day of a Unix second, UTC: most lines share it with the one before."""
    return time.strftime("%H:%M:%S", time.gmtime(moment))


def _one_line(text: str) -> str:
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    )


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    return clip(f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else str(value), _MAX_FIELD)
