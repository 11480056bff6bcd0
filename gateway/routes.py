"""The client API: which path does what, and what can be asked.

Owns the table of routes and the answers to questions about the door. Taking tickets in is `gateway.submission`, telling
where they stand is `gateway.status`.
"""

from collections.abc import Mapping

from aiohttp import web

from gateway import answers, asyncapi, errors, openapi
from gateway.admission import Mode, Rule
from gateway.door import Door
from gateway.preflight import form
from gateway.preflight.inflation import SUPPORTED
from gateway.preflight.ticket import SUPPORTED_TYPES
from gateway.serving import expect_later, problem
from gateway.status import Statuses
from gateway.submission import Submissions


class Routes:
    """The handlers of one door."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._submissions = Submissions(door)
        self._statuses = Statuses(door)

    def table(self) -> list[web.RouteDef]:
        """Return every route the door has; `openapi.document` describes exactly these."""
        return [
            web.post("/v1/tickets", self._submissions.submit, expect_handler=expect_later),
            web.post("/v1/tickets:check", self._submissions.check, expect_handler=expect_later),
            web.get("/v1/tickets/{id}", self._statuses.status),
            web.get("/v1/limits", self.limits),
            web.get("/healthz", self.health),
            web.get("/readyz", self.ready),
            web.get("/metrics", self.metrics),
            web.get("/openapi.json", self.description),
            web.get("/asyncapi.json", self.behind),
        ]

    async def limits(self, _: web.Request) -> web.StreamResponse:
        """Tell what the door lets in, so that a client need not find out by being refused."""
        limits = self._door.limits
        return answers.document(
            {
                "max_body_bytes": limits.max_body_bytes,
                "max_tokens": limits.max_tokens,
                "encoding": self._door.settings.encoding,
                "max_attachments": limits.max_attachments,
                "max_attachment_bytes": limits.max_attachment_bytes,
                "attachments_inline_bytes": self._door.settings.attachments_inline,
                "attachment_types": list(limits.attachment_types),
                "content_types": list(SUPPORTED_TYPES),
                "content_encodings": [coding.value for coding in SUPPORTED],
                "body_deadline_seconds": self._door.settings.body_deadline,
                "kinds": {
                    kind: {**own.numbers, **({"rules": _told(own.rules)} if own.rules else {})}
                    for kind, own in limits.kinds.items()
                    if own.numbers or own.rules
                },
                "idempotency_expiry_seconds": self._door.repetitions.keep,
                "idempotency_in_flight_seconds": self._door.repetitions.lease,
                "status_wait_seconds": self._door.waits.longest,
                "status_look_seconds": self._door.waits.every,
                "max_waiting": self._door.waits.most_of_one,
                "rules": _told({rule: limits.mode(rule) for rule in Rule}),
            }
        )

    async def health(self, _: web.Request) -> web.StreamResponse:
        """Alive, whatever the broker does."""
        return answers.alive()

    async def ready(self, request: web.Request) -> web.StreamResponse:
        """Whether a publish would be confirmed now. Store and depot are reported, but most tickets need neither."""
        obstacle = self._door.obstacle()
        checks: dict[str, object] = {
            "publish": "ok" if obstacle is None else str(obstacle),
            "store": "ok" if self._door.states.reachable else "unreachable",
            "attachments": "ok" if self._door.deposits.reachable else "unreachable",
        }
        if self._door.member is not None:
            standing = self._door.member.standing
            checks["processes"] = f"{standing.ready()} of {len(standing)} ready"
        if obstacle is not None:
            return problem(request, errors.not_ready(str(obstacle), checks))
        return answers.document({"ready": True, "checks": checks})

    async def metrics(self, _: web.Request) -> web.StreamResponse:
        """The door's figures for Prometheus."""
        return web.Response(
            body=self._door.exposition(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def description(self, _: web.Request) -> web.StreamResponse:
        """The description of all this."""
        return answers.document(
            openapi.document(
                most_attachments=form.most_attachments(self._door.limits.of(None)),
                keys_needed=self._door.clients.needed,
            )
        )

    async def behind(self, _: web.Request) -> web.StreamResponse:
        """The description of what lies behind the door."""
        return answers.document(asyncapi.document(self._door.settings.topology))


def _told(modes: Mapping[Rule, Mode]) -> dict[str, str]:
    return {rule.value: mode.value for rule, mode in modes.items()}
