"""`/v1/rejections`, `/v1/audit` and `/v1/fleet`: what was refused, who did what, and what nodes say of themselves.

Owns the translation between HTTP and these records. Decides nothing.
"""

import time
from dataclasses import asdict, dataclass
from typing import Any

from aiohttp import web

from gateway.contract.rules import Rule
from gateway.station import export, fleet, passes, rejections, what_if
from gateway.station.desk import problems
from gateway.station.desk.asking import actor, answer, document, query
from gateway.station.desk.bodies import AuditQuery, Decide, RejectionsQuery
from gateway.station.desk.problems import Answered
from gateway.station.documents import of_fleet, written
from gateway.station.export import AuditFilter
from gateway.station.passes import Given, NotGiven
from gateway.station.rejections import GROUPINGS, Selection
from gateway.station.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsApi:
    """The handlers of these paths."""

    store: Store

    def routes(self) -> list[web.RouteDef]:
        """Return every route."""
        return [
            web.get("/v1/rejections", self.list),
            web.post("/v1/rejections/{request}/admit", self.admit),
            web.get("/v1/audit", self.audit),
            web.get("/v1/fleet", self.fleet),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """Give the newest refusals, or their groups, or how many would have passed."""
        wanted = query(request, RejectionsQuery)
        if wanted.rule is not None and wanted.rule not in tuple(Rule):
            raise Answered(problems.unreadable(f"rule: write one of {', '.join(sorted(Rule))}"))
        names = ("kind", "client", "rule", "since", "until")
        selection = Selection(**{name: getattr(wanted, name) for name in names})
        if wanted.supposed:
            return answer(await self._outlook(selection, wanted.supposed))
        if wanted.group is not None:
            by = tuple(dict.fromkeys(wanted.group.split(",")))
            if not set(by) <= set(GROUPINGS):
                raise Answered(problems.unreadable(f"group: write some of {', '.join(GROUPINGS)}"))
            return answer({"groups": [asdict(one) for one in await rejections.group(self.store, selection, by)]})
        found, number = await rejections.find(self.store, selection)
        return answer({"total": number, "rejections": [asdict(refusal) for refusal in found]})

    async def admit(self, request: web.Request) -> web.StreamResponse:
        """Let one in anyway, when its client sends it again."""
        wanted = await document(request, Decide)
        name = request.match_info["request"]
        by = actor(request, wanted.by)
        match await passes.give(self.store, name, by=by, reason=wanted.reason):
            case Given(granted=granted):
                return answer({**asdict(granted), "request": name}, status=201)
            case NotGiven(sentence=sentence):
                raise Answered(problems.not_now(sentence))

    async def audit(self, request: web.Request) -> web.StreamResponse:
        """Give the acts of people as JSON lines, oldest first, however many there are."""
        chosen = AuditFilter(**dict(query(request, AuditQuery)))
        lines = export.acts(self.store, chosen)
        # The first one is asked for before the answer begins: a store that is down is a problem, not a broken answer.
        first = await anext(lines, None)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "Cache-Control": "no-store"})
        await response.prepare(request)
        if first is not None:
            await response.write(f"{written(first)}\n".encode())
        async for line in lines:
            await response.write(f"{written(line)}\n".encode())
        await response.write_eof()
        return response

    async def fleet(self, _request: web.Request) -> web.StreamResponse:
        """Give what nodes last said of themselves."""
        return answer(of_fleet(await fleet.find(self.store), time.time()))

    async def _outlook(self, selection: Selection, supposed: tuple[str, ...]) -> dict[str, Any]:
        try:
            supposition = what_if.suppose(list(supposed))
        except ValueError as error:
            raise Answered(problems.unreadable(f"if: {error}")) from None
        found = await rejections.outlook(self.store, selection, supposition)
        totals = {name: sum(getattr(one, name) for one in found) for name in ("passes", "refused", "unknown")}
        modes = {rule.value: mode.value for rule, mode in supposition.modes.items()}
        return {"supposed": {**supposition.limits, **modes}, **totals, "by": [asdict(one) for one in found]}
