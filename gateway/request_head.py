"""What a submission says before its body: its key, its kind, the answers that it takes.

Owns how these headers are read. Whether they will do is for others to say.
"""

import re
from typing import Final

from aiohttp import web

from gateway import errors
from gateway.problem_document import Problem

_KEY: Final = re.compile(r'"[\x20-\x21\x23-\x7e]{1,253}"|[\x21\x23-\x7e]{1,255}')
"""A string of RFC 8941 as the Idempotency-Key draft has it, or the bare key that most clients send."""
_JSON: Final = ("application/json", "application/problem+json", "application/*", "*/*")


def takes_json(request: web.Request) -> bool:
    """Tell whether the client takes what the door answers."""
    accepted = ",".join(request.headers.getall("Accept", ()))
    if not accepted.strip():
        return True
    ranges = (part.split(";")[0].strip().lower() for part in accepted.split(","))
    return any(named in _JSON for named in ranges)


def kinds_beside(request: web.Request) -> set[str]:
    """Return every kind that is named beside the body, in the query or a header; more than one is a contradiction."""
    if not request.rel_url.raw_query_string and "Lazaretto-Kind" not in request.headers:
        return set()
    return {*request.query.getall("kind", ()), *request.headers.getall("Lazaretto-Kind", ())}


def kind_beside(request: web.Request) -> str | None:
    """Return the kind that stands beside the body, in the query or a header."""
    return next(iter(kinds_beside(request)), None)


def idempotency_key(request: web.Request) -> tuple[str | None, Problem | None]:
    """Return the key without its quotes, and what is wrong with it; neither where there is none."""
    given = request.headers.getall("Idempotency-Key", ())
    if not given:
        return None, None
    if len(given) > 1:
        return None, errors.bad_idempotency_key("The header occurs more than once.")
    if _KEY.fullmatch(given[0]) is None:
        return None, errors.bad_idempotency_key("A key has 1 to 255 visible ASCII characters, with or without quotes.")
    return given[0].removeprefix('"').removesuffix('"'), None
