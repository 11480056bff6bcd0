"""`/v1/quarantine`: what is held, and what is decided about one item.

Owns the translation between HTTP and the decisions. Decides nothing.
"""

from dataclasses import dataclass
from typing import Any, assert_never

from aiohttp import web

from gateway.preflight.vocabulary import VocabularyError
from gateway.settings import StationSettings
from gateway.station import decisions, dossier, edited_replay, escalations, replays
from gateway.station.checks import Checks
from gateway.station.decided import Barred, Decision, Done, Doubtful, Taken, Unknown, Unsent
from gateway.station.desk import address, enclosures, problems
from gateway.station.desk.asking import actor, answer, document, query
from gateway.station.desk.bodies import Decide, DiscardBody, Listing, ReplayBody
from gateway.station.desk.item_pages import lineage_of, may_see
from gateway.station.desk.problems import Answered
from gateway.station.documents import escalations_of, listed, shown
from gateway.station.replays import Plan
from gateway.station.sender import Sender
from gateway.station.store import Store

Outcome = Done | Unknown | Taken | Barred | Unsent | Doubtful


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineApi:
    """The handlers of these paths."""

    settings: StationSettings
    store: Store
    sender: Sender

    def routes(self) -> list[web.RouteDef]:
        """Return every route."""
        return [
            web.get("/v1/quarantine", self.list),
            web.get("/v1/quarantine/{ticket}", self.show),
            web.post("/v1/quarantine/{ticket}/replay", self.replay),
            web.post("/v1/quarantine/{ticket}/discard", self.discard),
            web.post("/v1/quarantine/{ticket}/restore", self.restore),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """Give a page of items, oldest first, and where the next one begins."""
        wanted = query(request, Listing)
        chosen = wanted.selected()
        after = None
        if wanted.after is not None:
            ticket, _, named = wanted.after.rpartition("/")
            generation = address.whole(named)
            after = None if generation is None else await dossier.find_item(self.store, ticket, generation)
            if after is None:
                raise Answered(problems.unreadable("after: write what an answer had in `next`"))
        found = await dossier.find_chosen(self.store, chosen, after=after, most=wanted.limit)
        counted = await dossier.count_chosen(self.store, chosen)
        more = len(found) == wanted.limit
        return answer(
            {
                "total": counted.number,
                "oldest": counted.oldest,
                "items": [listed(item, self._link(item.ticket)) for item in found],
                "next": f"{found[-1].ticket}/{found[-1].generation}" if more else None,
            }
        )

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Give all that is known of a ticket."""
        ticket = request.match_info["ticket"]
        found = await dossier.find(self.store, ticket)
        if found is None:
            raise Answered(problems.no_such_item(ticket))
        attached: list[dict[str, Any]] = []
        if found.items and may_see(request, ticket, found.items[0].generation):
            attached = enclosures.listed(await enclosures.of(self.store, found))
        descents = await lineage_of(request, ticket)
        keep = self.settings.item_retention
        told = shown(found, self._link(ticket), keep, attached=attached, lineage=descents)
        return answer({**told, **escalations_of(await escalations.find(self.store, ticket))})

    async def replay(self, request: web.Request) -> web.StreamResponse:
        """Send an item again, edited or not; or say what an edit would do."""
        ticket, wanted = request.match_info["ticket"], await document(request, ReplayBody)
        decision = self._decision(request, wanted)
        topology = self.settings.topology
        if wanted.resume:
            resumed = await replays.resume(self.store, self.sender, topology, ticket, decision)
            return self._told(resumed, ticket, decision, "replayed")
        plan = Plan(lane=wanted.lane, generation=wanted.generation, limit=self.settings.replay_limit)
        if wanted.edit is not None:
            prepared = await self._edited(request, wanted)
            if not isinstance(prepared, Plan):
                return self._told(prepared, ticket, decision, "replayed")
            plan = prepared
        if wanted.dry_run:
            changed = None
            if plan.change is not None and may_see(request, ticket, plan.generation or 0):
                changed = plan.change.difference
            return answer({"ticket": ticket, "decision": "none", "difference": changed})
        done = await replays.replay(self.store, self.sender, topology, ticket, decision, plan=plan)
        return self._told(done, ticket, decision, "replayed")

    async def discard(self, request: web.Request) -> web.StreamResponse:
        """End an item."""
        ticket, wanted = request.match_info["ticket"], await document(request, DiscardBody)
        decision = self._decision(request, wanted)
        done = await decisions.discard(self.store, ticket, decision, wanted.code, generation=wanted.generation)
        return self._told(done, ticket, decision, "discarded")

    async def restore(self, request: web.Request) -> web.StreamResponse:
        """Hold again what was discarded."""
        ticket, wanted = request.match_info["ticket"], await document(request, Decide)
        decision = self._decision(request, wanted)
        done = await decisions.restore(self.store, ticket, decision, window=self.settings.restore_window)
        return self._told(done, ticket, decision, "held again")

    async def _edited(self, request: web.Request, wanted: ReplayBody) -> Plan | Barred | Taken | Unknown:
        assert wanted.edit is not None  # noqa: S101 - the caller has looked
        ticket = request.match_info["ticket"]
        try:
            prepared = await edited_replay.prepare(
                self.store,
                Checks(self.settings),
                ticket,
                wanted.edit.edit(),
                lane=wanted.lane,
                generation=wanted.generation,
                limit=self.settings.replay_limit,
            )
        except VocabularyError as error:
            raise Answered(problems.not_now(f"edits cannot be checked: {error}")) from error
        if isinstance(prepared, edited_replay.Refused):
            fails, seen = prepared.fails, may_see(request, ticket, prepared.generation)
            difference = prepared.difference if seen else None
            raise Answered(problems.inadmissible(fails.violations, difference, fails.sentence))
        return prepared

    def _decision(self, request: web.Request, wanted: Decide) -> Decision:
        return Decision(by=actor(request, wanted.by), reason=wanted.reason)

    def _told(self, outcome: Outcome, ticket: str, decision: Decision, done: str) -> web.Response:
        told: dict[str, Any] = {"ticket": ticket, "by": decision.by}
        match outcome:
            case Done(generation=generation):
                return answer({**told, "decision": done, "generation": generation})
            case Doubtful(why=why):
                return answer({**told, "decision": "unconfirmed", "detail": why}, status=202)
            case Unknown():
                raise Answered(problems.no_such_item(ticket))
            case Taken():
                raise Answered(problems.taken(outcome))
            case Barred():
                raise Answered(problems.barred(outcome))
            case Unsent():
                raise Answered(problems.not_sent(outcome))
            case _:
                assert_never(outcome)

    def _link(self, ticket: str) -> str:
        return f"{self.settings.desk_link}/items/{ticket}"
