"""Alerts to an Alertmanager, by its API v2: what is going on, again and again, and when it was over.

Owns the form in which it gets them. The labels of one alert never change, since they are what it is recognized by; who
is told, how often and grouped with what is the Alertmanager's to decide.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final, assert_never
from urllib.parse import urlsplit

import aiohttp

from gateway.contract.text import clip
from gateway.station.channels import AlertRefused, ChannelFailed, Notice
from gateway.station.holding import AlertEvent

DEADLINE: Final = 10.0
_MAX_LABEL: Final = 240
_MAX_ANNOTATION: Final = 4096
_MAX_ANSWER: Final = 2048
_REFUSALS: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})
"""Of one of these alerts, or of so many at once by what stands before the server: fewer may be taken."""
_END_OF_TIME: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_LABELS: Final = ("ticket", "generation", "kind", "reason", "build", "rule", "mismatch", "owner")


class Alertmanager:
    """One Alertmanager; the members of a cluster are one each."""

    def __init__(self, url: str, *, expiry: float) -> None:
        """`expiry` is for how many seconds an alert lasts that it does not hear of again."""
        # The URL may hold a password; a name has to stay the same when URLs are reordered, and must not tell it.
        self.name = f"alertmanager:{hashlib.sha256(url.encode()).hexdigest()[:8]}"
        self.expiry = expiry
        self._url = f"{url.rstrip('/')}/api/v2/alerts"
        self._host = urlsplit(url).hostname or ""
        self._session: aiohttp.ClientSession | None = None

    async def show(self, notices: Sequence[Notice]) -> None:
        """Say how these stand, in one request; raises ChannelFailed, and AlertRefused where one of them is no good."""
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=False)
        now = datetime.now(UTC).timestamp()
        alerts = [_alert(notice, lasts_until=now + self.expiry) for notice in notices]
        try:
            # A redirect would be followed with a GET, whose answer says nothing of these.
            post = self._session.post(self._url, json=alerts, allow_redirects=False)
            async with asyncio.timeout(DEADLINE), post as answer:
                said = (await answer.content.read(_MAX_ANSWER)).decode("utf-8", "replace")
        except TimeoutError as error:
            raise ChannelFailed(f"{self._host} did not answer within {DEADLINE:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ChannelFailed(f"{type(error).__name__}: {error}") from error
        if answer.status == HTTPStatus.OK:
            return
        if answer.status in _REFUSALS:
            raise AlertRefused(f"it refused: {said}")
        raise ChannelFailed(f"it answered {answer.status}: {said}")

    async def close(self) -> None:
        """Let go of all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _alert(notice: Notice, lasts_until: float) -> dict[str, Any]:
    name, severity = _kind(notice.event)
    # Never before it began, or the server refuses it: clocks differ, and are put back.
    ends = max(lasts_until if notice.over_at is None else notice.over_at, notice.began_at)
    named = {label: str(notice.fields[label]) for label in _LABELS if notice.fields.get(label) is not None}
    labels = {"alertname": name, "severity": severity, "dedup_key": notice.key, **named}
    return {
        "labels": {label: clip(value, _MAX_LABEL) for label, value in labels.items()},
        "annotations": {"summary": clip(notice.title, _MAX_LABEL), "description": clip(notice.text, _MAX_ANNOTATION)},
        "generatorURL": str(notice.fields.get("link", "")),
        "startsAt": _written(notice.began_at),
        "endsAt": _written(ends),
    }


def _kind(about: AlertEvent) -> tuple[str, str]:
    """Return the alert's name and severity; what is resolved has those of what it resolves."""
    match about:
        case AlertEvent.QUARANTINED | AlertEvent.RESOLVED:
            return "LazarettoItemInQuarantine", "warning"
        case AlertEvent.SUSPECT:
            return "LazarettoItemSuspect", "info"
        case AlertEvent.STORM | AlertEvent.STORM_LIFTED:
            return "LazarettoStorm", "critical"
        case AlertEvent.REFUSALS_SURGED:
            return "LazarettoRefusalsSurge", "warning"
        case AlertEvent.MISMATCH:
            return "LazarettoMismatch", "warning"
        case AlertEvent.REVIEW_OVERDUE:
            return "LazarettoReviewOverdue", "warning"
        case AlertEvent.TEST:
            return "LazarettoTest", "info"
        case _:
            assert_never(about)


def _written(moment: float) -> str:
    """Write a moment, which may be what a node's clock said."""
    moment = min(max(moment, 1.0), _END_OF_TIME)
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
