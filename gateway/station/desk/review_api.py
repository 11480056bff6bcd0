"""The JSON API of reviews: owners, holds, notes, groups, causes, records.

Owns the translation between HTTP and what reviewers do beside deciding. Decides nothing.
"""

import time
from dataclasses import asdict, dataclass
from typing import Any, assert_never

from aiohttp import web

from gateway.station import caseload, comparing, deaths, explaining, groups, record, reviewing, sign_offs
from gateway.station.decided import Decision, Unknown
from gateway.station.desk import problems
from gateway.station.desk.asking import actor, answer, document, query
from gateway.station.desk.bodies import AssignBody, Decide, GroupsQuery, NoteBody, ReleaseBody, SignBody
from gateway.station.desk.problems import Answered
from gateway.station.reviewing import Clash, Noted
from gateway.station.sign_offs import Signed
from gateway.station.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewApi:
    """The handlers of these paths."""

    store: Store

    def routes(self) -> list[web.RouteDef]:
        """Return every route."""
        item = "/v1/quarantine/{ticket}"
        return [
            web.post(f"{item}/assign", self.assign),
            web.post(f"{item}/hold", self.hold),
            web.post(f"{item}/release", self.release),
            web.post(f"{item}/notes", self.note),
            web.get(f"{item}/why", self.why),
            web.get(f"{item}/review", self.review),
            web.post(f"{item}/review", self.sign_off),
            web.get("/v1/groups", self.groups),
            web.get("/v1/groups/{group}", self.group),
            web.post("/v1/groups/{group}/notes", self.note_group),
            web.get("/v1/caseload", self.caseload),
        ]

    async def assign(self, request: web.Request) -> web.StreamResponse:
        """Give an item to somebody."""
        wanted = await document(request, AssignBody)
        decision = _decision(request, wanted)
        done = await reviewing.assign(self.store, _ticket(request), wanted.owner, decision, seen=wanted.seen)
        return _told(done, decision.by)

    async def hold(self, request: web.Request) -> web.StreamResponse:
        """Have a ticket wait."""
        decision = _decision(request, await document(request, Decide))
        return _told(await reviewing.hold(self.store, _ticket(request), decision), decision.by)

    async def release(self, request: web.Request) -> web.StreamResponse:
        """End a hold."""
        wanted = await document(request, ReleaseBody)
        decision = _decision(request, wanted)
        done = await reviewing.release(self.store, _ticket(request), decision, seen=wanted.seen)
        return _told(done, decision.by)

    async def note(self, request: web.Request) -> web.StreamResponse:
        """Write something down about a ticket."""
        wanted = await document(request, NoteBody)
        by = actor(request, wanted.by)
        return _told(await reviewing.note(self.store, _ticket(request), wanted.text, by=by), by)

    async def note_group(self, request: web.Request) -> web.StreamResponse:
        """Write something down about a group."""
        wanted, group = await document(request, NoteBody), request.match_info["group"]
        by = actor(request, wanted.by)
        done = await reviewing.note_group(self.store, group, wanted.text, by=by)
        if isinstance(done, Unknown):
            raise Answered(problems.no_such_group(group))
        return _told(done, by)

    async def why(self, request: web.Request) -> web.StreamResponse:
        """Tell why a ticket is where it is."""
        found = await explaining.explain(self.store, _ticket(request))
        if found is None:
            raise Answered(problems.no_such_ticket(_ticket(request)))
        return answer(explaining.document(found))

    async def review(self, request: web.Request) -> web.StreamResponse:
        """Give the record of a review."""
        found = await sign_offs.find(self.store, _ticket(request))
        if found is None:
            raise Answered(problems.no_such_ticket(_ticket(request)))
        return answer(record.document(found))

    async def sign_off(self, request: web.Request) -> web.StreamResponse:
        """Sign the record of a review."""
        wanted = await document(request, SignBody)
        done = await sign_offs.sign(self.store, _ticket(request), _decision(request, wanted), seen=wanted.digest)
        match done:
            case Signed(record=signed):
                return answer(record.document(signed))
            case Clash(sentence=sentence):
                raise Answered(problems.changed(sentence))
            case Unknown(ticket=ticket):
                raise Answered(problems.no_such_ticket(ticket))
            case _:
                assert_never(done)

    async def groups(self, request: web.Request) -> web.StreamResponse:
        """Give the groups of a selection of items."""
        found = await groups.find(self.store, query(request, GroupsQuery).selected())
        return answer({"groups": [explaining.of_group(one) for one in found]})

    async def group(self, request: web.Request) -> web.StreamResponse:
        """Give one group, and what its items share."""
        found = await groups.find_one(self.store, request.match_info["group"])
        if found is None:
            raise Answered(problems.no_such_group(request.match_info["group"]))
        compared = await comparing.of_group(self.store, found.id, found.kind)
        more: dict[str, Any] = {
            "comparison": explaining.of_comparison(compared),
            "relatives": await groups.relatives(self.store, found),
            "notes": [asdict(note) for note in await groups.find_notes(self.store, group=found.id)],
            "acts": [asdict(act) for act in await groups.find_acts(self.store, found.id)],
        }
        return answer({**explaining.of_group(found), **more})

    async def caseload(self, _request: web.Request) -> web.StreamResponse:
        """Tell how much waits for whom, and which items kill workers."""
        now = time.time()
        async with self.store.reading() as transaction:
            loads = await caseload.loads(transaction, now)
        losses = await deaths.recent(self.store, now)
        return answer({"owners": [asdict(load) for load in loads], "deaths": asdict(losses)})


def _ticket(request: web.Request) -> str:
    return request.match_info["ticket"]


def _decision(request: web.Request, wanted: Decide) -> Decision:
    return Decision(by=actor(request, wanted.by), reason=wanted.reason)


def _told(done: Noted | Clash | Unknown, by: str) -> web.Response:
    match done:
        case Noted():
            return answer({**asdict(done), "by": by})
        case Clash(sentence=sentence):
            raise Answered(problems.changed(sentence))
        case Unknown(ticket=ticket):
            raise Answered(problems.no_such_ticket(ticket))
        case _:
            assert_never(done)
