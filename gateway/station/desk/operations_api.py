"""`/v1/operations` and `/v1/resets`: many items at once.

Owns the translation between HTTP and operations. Decides nothing.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from gateway.preflight.vocabulary import VocabularyError
from gateway.settings import StationSettings
from gateway.station import candidates, operations, pardons, progress
from gateway.station.candidates import TooMany
from gateway.station.checks import Checks
from gateway.station.decided import Decision
from gateway.station.desk import address, problems
from gateway.station.desk.asking import actor, answer, document, query
from gateway.station.desk.bodies import Decide, OperationBody, ResetBody, ResetQuery, StartBody
from gateway.station.desk.guard import needs
from gateway.station.desk.problems import Answered
from gateway.station.documents import of_line, of_operation, of_reset
from gateway.station.identity import Role
from gateway.station.operations import Kind, NotNow, Operation, Request, TokenTaken
from gateway.station.pardons import Marked, Miscounted, NoFence
from gateway.station.progress import Outcome
from gateway.station.store import Store

MAX_KEY: int = 255
_Change = Callable[[Store, str, Decision], Awaitable[Operation | NotNow | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationsApi:
    """The handlers of these paths."""

    settings: StationSettings
    store: Store

    def routes(self) -> list[web.RouteDef]:
        """Return every route."""
        return [
            web.get("/v1/operations", self.list),
            web.post("/v1/operations", self.make),
            web.get("/v1/operations/{id}", self.show),
            web.get("/v1/operations/{id}/items", self.items),
            web.post("/v1/operations/{id}/start", self.start),
            web.post("/v1/operations/{id}/stop", self.stop),
            web.post("/v1/operations/{id}/continue", self.proceed),
            web.get("/v1/resets", self.count_resets),
            web.post("/v1/resets", self.reset),
        ]

    async def list(self, _request: web.Request) -> web.StreamResponse:
        """Give the newest operations."""
        found = await operations.newest(self.store)
        return answer({"operations": [of_operation(one, await progress.count(self.store, one.id)) for one in found]})

    async def make(self, request: web.Request) -> web.StreamResponse:
        """Freeze a selection as a draft: count it, and say why some of it cannot be done."""
        wanted = await document(request, OperationBody)
        by, token = actor(request, wanted.by), request.headers.get("Idempotency-Key")
        if token is not None and not 0 < len(token) <= MAX_KEY:
            raise Answered(problems.unreadable(f"Idempotency-Key: write 1 to {MAX_KEY} characters"))
        chosen = candidates.meant(wanted.act, wanted.filter.chosen())
        try:
            found = await candidates.find(
                self.store,
                wanted.act,
                chosen,
                limit=self.settings.replay_limit,
                check=Checks(self.settings).why_refused,
            )
        except TooMany as error:
            raise Answered(problems.too_many(str(error))) from error
        except VocabularyError as error:
            raise Answered(problems.not_now(f"bodies cannot be checked: {error}")) from error
        made = await operations.draft(
            self.store,
            Request(
                act=wanted.act,
                by=by,
                chosen=chosen.document(),
                lane=wanted.lane,
                code=wanted.code if wanted.act is Kind.DISCARD else None,
                pace=wanted.pace,
                canary=wanted.canary,
                token=token,
            ),
            found,
        )
        if isinstance(made, TokenTaken):
            raise Answered(problems.token_taken(made.operation))
        one, is_new = made
        return await self._shown(one, status=201 if is_new else 200)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Give one operation with its counts."""
        return await self._shown(await self._one(request))

    async def items(self, request: web.Request) -> web.StreamResponse:
        """Give a page of what became of its items."""
        one = await self._one(request)
        try:
            outcomes = [Outcome(outcome) for outcome in request.query.getall("outcome", [])]
        except ValueError as error:
            raise Answered(problems.unreadable(str(error))) from None
        after = address.whole(request.query.get("after", ""))
        if after is None and "after" in request.query:
            raise Answered(problems.unreadable("after: write what an answer had in `next`"))
        lines = await progress.lines(self.store, one.id, outcomes=outcomes, after=-1 if after is None else after)
        more = len(lines) == progress.MAX_LISTED
        return answer({"items": [of_line(line) for line in lines], "next": lines[-1].position if more else None})

    async def start(self, request: web.Request) -> web.StreamResponse:
        """Have a draft done; asked twice, it is done once."""
        wanted = await document(request, StartBody)
        name, decision = request.match_info["id"], self._decision(request, wanted)
        return await self._changed(name, await operations.start(self.store, name, decision, expect=wanted.expect))

    async def stop(self, request: web.Request) -> web.StreamResponse:
        """Give no further item its turn."""
        return await self._change(request, operations.stop)

    async def proceed(self, request: web.Request) -> web.StreamResponse:
        """Go on with what was stopped, or after a canary that failed."""
        return await self._change(request, operations.proceed)

    async def count_resets(self, request: web.Request) -> web.StreamResponse:
        """Give what is on its way and would get its attempts back."""
        wanted = query(request, ResetQuery)
        try:
            found = await pardons.in_flight(self.store, wanted.selected())
        except NoFence as error:
            raise Answered(problems.not_now(str(error))) from None
        return answer(of_reset(found, None))

    @needs(Role.ADMIN)
    async def reset(self, request: web.Request) -> web.StreamResponse:
        """Give attempts back to exactly as many items as were counted."""
        wanted = await document(request, ResetBody)
        try:
            done = await pardons.reset(
                self.store, wanted.selected(), self._decision(request, wanted), expect=wanted.expect
            )
        except NoFence as error:
            raise Answered(problems.not_now(str(error))) from None
        match done:
            case Miscounted(sentence=sentence):
                raise Answered(problems.not_now(sentence))
            case Marked(found=found, marked=marked):
                return answer(of_reset(found, marked))

    async def _change(self, request: web.Request, change: _Change) -> web.StreamResponse:
        name, decision = request.match_info["id"], self._decision(request, await document(request, Decide))
        return await self._changed(name, await change(self.store, name, decision))

    async def _changed(self, name: str, found: Operation | NotNow | None) -> web.StreamResponse:
        match found:
            case None:
                raise Answered(problems.no_such_operation(name))
            case NotNow(sentence=sentence):
                raise Answered(problems.not_now(sentence))
            case Operation():
                return await self._shown(found)

    async def _one(self, request: web.Request) -> Operation:
        found = await operations.find(self.store, request.match_info["id"])
        if found is None:
            raise Answered(problems.no_such_operation(request.match_info["id"]))
        return found

    async def _shown(self, one: Operation, *, status: int = 200) -> web.Response:
        return answer(of_operation(one, await progress.count(self.store, one.id)), status=status)

    def _decision(self, request: web.Request, wanted: Decide) -> Decision:
        return Decision(by=actor(request, wanted.by), reason=wanted.reason)
