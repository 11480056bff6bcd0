"""How a page is made of a template and its context.

Owns what every page knows besides: who reads it, the token of its forms, where it is. Marks no text as safe.
"""

from collections.abc import Mapping
from typing import Any, Final

import aiohttp_jinja2
from aiohttp import web

from gateway.station.desk.parts import DOORKEEPER, HOLDER, IDENTITY

NAV: Final = (
    ("Attention", "/"),
    ("Groups", "/groups"),
    ("Items", "/items"),
    ("Operations", "/operations"),
    ("Discarded", "/discarded"),
    ("Refusals", "/refusals"),
    ("Fleet", "/fleet"),
    ("Audit", "/audit"),
    ("Your permissions", "/permissions"),
)


def page(request: web.Request, template: str, context: Mapping[str, Any], *, status: int = 200) -> web.Response:
    """Return a page; `context` is what its view made of the data."""
    common = {
        "me": request.get(IDENTITY),
        "csrf": request.app[DOORKEEPER].forms.issue(request.get(HOLDER, "")),
        "nav": NAV,
        "place": _place(request.path),
        "live": False,
        "moving": False,
    }
    return aiohttp_jinja2.render_template(template, request, {**common, **context}, status=status)


def _place(path: str) -> str:
    """Return the entry of the navigation that a path lies under."""
    under = [target for _, target in NAV if path == target or (target != "/" and path.startswith(f"{target}/"))]
    return max(under, key=len, default="")
