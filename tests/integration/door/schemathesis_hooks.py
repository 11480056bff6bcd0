"""What the door's description says in words, because no schema can: loaded by Schemathesis before it makes requests.

Owns the mending of requests that Schemathesis holds for valid. What it holds for invalid is left as it is.
"""

import base64
import binascii
import itertools
import re
from typing import Any

import orjson
import schemathesis

_KIND = "support.ticket"
_CONTROLS = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ufffd]")
_NAMED = ("ticket", "body")
_MOST_ATTACHMENTS = 10
_NUMBERS = itertools.count(1)


@schemathesis.hook
def map_case(_: schemathesis.HookContext, case: schemathesis.Case[Any]) -> schemathesis.Case[Any]:
    """Have a valid submission name its kind once, itself by an id or a fresh key, and hold text where text is said."""
    is_valid = case.meta is not None and case.meta.generation.mode is schemathesis.GenerationMode.POSITIVE
    if case.method != "POST" or not is_valid:
        return case
    if case.media_type == "multipart/form-data" and isinstance(case.body, dict):
        case.body = _bounded(dict(_part(name, value, at) for at, (name, value) in enumerate(case.body.items())))
    elif str(case.media_type).startswith("text/"):
        case.body = _readable(case.body)
    ticket = _ticket(case.body)
    if ticket.get("attributes"):
        ticket["attributes"] = _without_nul(ticket["attributes"])
    for attachment in ticket.get("attachments") or ():
        if _is_text(attachment) and not _says_something(attachment.get("content_base64")):
            attachment["content_type"] = "application/octet-stream"
    case.headers.pop("Lazaretto-Kind", None)
    if ticket.get("kind") is not None:
        case.query.pop("kind", None)
    else:
        case.query.setdefault("kind", _KIND)
    if "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = f"key-{next(_NUMBERS)}"
    if ticket.get("id") is not None:
        case.headers.pop("Idempotency-Key", None)
    return case


def _ticket(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        return {}
    whole = body.get("ticket", body)
    return whole if isinstance(whole, dict) else {}


def _bounded(parts: dict[str, Any]) -> dict[str, Any]:
    attachments = [name for name in parts if name not in _NAMED]
    return {name: value for name, value in parts.items() if name not in attachments[_MOST_ATTACHMENTS:]}


def _part(name: str, value: Any, position: int) -> tuple[str, Any]:
    match name:
        case "ticket":
            return name, value
        case "body":
            return name, _readable(value)
        case _:
            return f"attachment-{position}", _readable(value)


def _readable(value: Any) -> str:
    """Return it as text that nobody takes for anything else."""
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return _CONTROLS.sub(" ", text) or " "


def _without_nul(value: Any) -> Any:
    match value:
        case str():
            return value.replace("\0", "")
        case dict():
            return {_without_nul(name): _without_nul(member) for name, member in value.items()}
        case list():
            return [_without_nul(member) for member in value]
        case _:
            return value


def _is_text(attachment: dict[str, Any]) -> bool:
    return str(attachment.get("content_type") or "text/plain").startswith("text/")


def _says_something(encoded: str | None) -> bool:
    try:
        base64.b64decode(encoded or "", validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return True
