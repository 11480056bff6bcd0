"""How long the broker waits for an acknowledgement, and what that leaves for a run (C9). Pure.

A run that outlives that patience is cut off and comes back, uncharged, again and again. Start-up compares deadlines
with `LAZARETTO_ACK_TIMEOUT`; where the broker has less patience than that says, it tells when it closes the channel,
and runs get shorter from then on.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from consumer.policy import Policy

_TOLD: Final = re.compile(r"delivery acknowledgement on channel \d+ timed out\. Timeout value used: (\d{1,12}) ms")
"""RabbitMQ's words, from 3.8.15 to 4.x."""
_SHARE: Final = 0.8
"""Of the patience, for the run; the rest is for what comes before and after it."""


def told(reason: str) -> float | None:
    """Return the broker's patience in seconds if that is what it closed a channel over, else None."""
    found = _TOLD.search(reason)
    return int(found[1]) / 1000 if found else None


@dataclass(frozen=True, slots=True)
class Patience:
    """What the broker has told of its patience so far; nothing at first."""

    seconds: float | None = None

    def learn(self, reason: str) -> "Patience":
        """Return what is known after a session ended for `reason`: the shortest patience counts."""
        new = told(reason)
        if new is None:
            return self
        return Patience(new if self.seconds is None else min(new, self.seconds))

    def within(self, policy: Policy) -> Policy:
        """Return a policy whose runs end before the broker's patience does."""
        if self.seconds is None or policy.run_deadline <= self.seconds * _SHARE:
            return policy
        return replace(policy, run_deadline=self.seconds * _SHARE)
