"""Tickets and items as the JSON documents of the command line and the desk's API.

Owns the keys, which users rely on: add to them, do not rename.
"""

from dataclasses import asdict
from typing import Any

from gateway.station.dossier import Dossier, Item


def shown(found: Dossier, link: str) -> dict[str, Any]:
    """Return a ticket as `show --json` and the desk's API give it."""
    return {
        "ticket": found.ticket,
        "kind": found.kind,
        "state": found.state,
        "reason": found.reason,
        "generation": found.generation,
        "attempts": found.attempts,
        "client": found.client,
        "updated_at": found.updated_at,
        "link": link,
        "runs": [asdict(run) for run in found.runs],
        "alerts": [asdict(alert) for alert in found.alerts],
        "items": [asdict(item) for item in found.items],
        "audit": [asdict(act) for act in found.acts],
    }


def listed(item: Item, link: str) -> dict[str, Any]:
    """Return an item as `list --json` and the desk's API give it."""
    return {**asdict(item), "link": link}
