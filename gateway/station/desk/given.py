"""What a person wrote into a form.

Owns the reading of the fields that every form has: who and why. Says in a sentence what is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from gateway.station.decided import Decision
from gateway.station.desk.parts import who


@dataclass(frozen=True, slots=True, kw_only=True)
class Incomplete:
    """Something is missing; `sentence` says what."""

    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One form as it was sent."""

    fields: Mapping[str, str]
    by: str | None
    """Who acts; None where nobody was named."""

    def text(self, name: str) -> str:
        """Return a field without blanks around it; empty when it is not there."""
        return self.fields.get(name, "").strip()

    def decision(self) -> Decision | Incomplete:
        """Return who wants it and why."""
        if self.by is None:
            return Incomplete(sentence="say who you are: an act without a name is nobody's")
        if not self.text("reason"):
            return Incomplete(sentence="say why: it is what the next one reads")
        return Decision(by=self.by, reason=self.text("reason"))

    def number(self, name: str, otherwise: float, *, most: float) -> float:
        """Return a field as a number from 0 to `most`; what is none is `otherwise`."""
        try:
            found = float(self.text(name))
        except ValueError:
            return otherwise
        return min(max(found, 0.0), most) if found == found else otherwise  # noqa: PLR0124 - the one number that differs


async def sent_by(request: web.Request) -> Any:
    """Return the fields that a request brings, as aiohttp has them; raises HTTPBadRequest for what is no form."""
    try:
        return await request.post()
    except (LookupError, ValueError, web.RequestPayloadError):  # the first: an encoding that nobody knows
        raise web.HTTPBadRequest(text="The form cannot be read, so nothing was done.") from None


async def read(request: web.Request) -> Form:
    """Read the form that a request brings; raises HTTPBadRequest."""
    sent = await sent_by(request)
    fields = {name: value for name, value in sent.items() if isinstance(value, str)}
    try:
        by: str | None = who(request).actor(fields.get("by"))
    except ValueError:
        by = None
    return Form(fields=fields, by=by)
