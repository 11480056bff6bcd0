"""Every act of a person, taken down with who and why, in the transaction that does it.

Owns the table `audit`, to which rows are only ever added: triggers in both stores refuse anything else.
"""

import time
from enum import StrEnum
from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.station.storable import storable
from gateway.station.tables.audit import audit

NO_TICKET: Final = ""
"""Stands for the ticket in the row of an act that is about an operation, or a group, as a whole."""


class Act(StrEnum):
    """What somebody did; people and metrics know these words."""

    REPLAY = "replay"
    REPLAY_RESUMED = "replay resumed"
    REPLAY_NOT_SENT = "replay not sent"
    DISCARD = "discard"
    RESTORE = "restore"
    RESET = "reset"
    PASS_GIVEN = "pass given"
    PASS_USED = "admitted anyway"
    BODY_REVEALED = "body revealed"
    ESCALATION_ACKNOWLEDGED = "escalation acknowledged"
    CONTENTS_REMOVED = "contents removed"
    """By the retention, which is nobody."""
    OPERATION_STARTED = "operation started"
    OPERATION_STOPPED = "operation stopped"
    OPERATION_CONTINUED = "operation continued"
    ASSIGN = "assign"
    HOLD = "hold"
    HOLD_ENDED = "hold ended"
    NOTE = "note"
    SIGN_OFF = "sign-off"


async def note(
    transaction: AsyncConnection,
    *,
    act: Act,
    by: str,
    reason: str,
    ticket: str = NO_TICKET,
    generation: int = 0,
    code: str | None = None,
    operation: str | None = None,
    cause: str | None = None,
    at: float | None = None,
) -> None:
    """Add one act; `at` in Unix seconds, now unless it is named."""
    row = {
        "at": time.time() if at is None else at,
        "ticket": storable(ticket),
        "generation": generation,
        "actor": storable(by),
        "act": act.value,
        "reason": storable(reason),
        "code": code,
        "operation": operation,
        "cause": cause,
    }
    await transaction.execute(sa.insert(audit).values(**row))
