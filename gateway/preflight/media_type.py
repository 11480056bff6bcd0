"""Header values of the form `type/subtype; name=value`: content types and dispositions.

Owns their grammar (RFC 9110, RFC 7578 with what browsers really send). Linear in the length of the value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

MAX_BYTES = 255
"""A content type travels on as an AMQP short string, which holds no more."""

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_ESSENCE = re.compile(rf"[ \t]*+({_TOKEN}/{_TOKEN})[ \t]*+")
_BEFORE = rf";[ \t]*+(?:({_TOKEN})[ \t]*+=[ \t]*+("
_AFTER = r'|[^;"\s]*+)[ \t]*+)?'
_PARAMETER = re.compile(_BEFORE + r'"[^"\\]*+(?:\\.[^"\\]*+)*+"' + _AFTER)
_UNESCAPED_PARAMETER = re.compile(_BEFORE + r'"[^"]*+"' + _AFTER)
_ESCAPED = re.compile(r'\\(["\\])')


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaType:
    """A content type: `essence` is `type/subtype`; it and the parameters' names are in lower case."""

    essence: str
    parameters: Mapping[str, str]

    @property
    def is_text(self) -> bool:
        """Whether the content is text in some charset."""
        return self.essence.startswith("text/")


@lru_cache(maxsize=256)
def parse_media_type(value: str) -> MediaType | None:
    """Read a Content-Type; None when it is malformed, not ASCII or longer than 255 bytes. Clients have few of them."""
    if len(value) > MAX_BYTES or not value.isascii():
        return None
    essence = _ESSENCE.match(value)
    if essence is None:
        return None
    parameters = parse_parameters(value[essence.end() :])
    return None if parameters is None else MediaType(essence=essence[1].lower(), parameters=parameters)


def parse_parameters(rest: str) -> Mapping[str, str] | None:
    """Read `; name=value; name="quoted value"`; None when malformed, or when one name comes twice."""
    return _parameters(rest, _PARAMETER)


def parse_form_parameters(rest: str) -> Mapping[str, str] | None:
    """Read the parameters of a form's disposition: quoted as in RFC 2183, else as browsers do.

    They write a quote as %22 and a backslash as itself (HTML, multipart/form-data encoding algorithm), so that a name
    may end in one: read as an escape, it would take the closing quote along, and the whole would make no sense.
    """
    found = _parameters(rest, _PARAMETER)
    return _parameters(rest, _UNESCAPED_PARAMETER) if found is None else found


def _parameters(rest: str, pattern: re.Pattern[str]) -> Mapping[str, str] | None:
    parameters: dict[str, str] = {}
    position = 0
    while position < len(rest):
        found = pattern.match(rest, position)
        if found is None:
            return None
        position = found.end()
        if found[1] is None:  # a stray semicolon, as some clients leave at the end
            continue
        name = found[1].lower()
        if name in parameters:
            return None
        quoted = found[2].startswith('"')
        value = found[2][1:-1] if quoted else found[2]
        parameters[name] = _ESCAPED.sub(r"\1", value) if quoted and pattern is _PARAMETER else value
    return parameters
