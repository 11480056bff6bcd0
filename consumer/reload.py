"""What a hang-up does to settings: file and environment are read again, and the policies swapped whole, or not at all.

Never touches what is under way: an item keeps the policy that its delivery was claimed with. Every other setting is as
it was at the start; those that differ now are named, since they need a restart.
"""

import logging
from collections.abc import Callable
from dataclasses import fields
from typing import Final

from consumer import metrics
from consumer.policy import Policies, Policy
from consumer.settings import Settings, SettingsInvalid, contradictions
from gateway.contract import knobs
from gateway.contract.logs import event

log = logging.getLogger("consumer.reload")

_OF_POLICIES: Final = frozenset(
    {*(item.name for item in fields(Policy)), "kinds", "max_spend_tokens", "max_spend_usd"}
    & Settings.model_fields.keys()
)
"""The settings that policies are made of; all others are used at the start alone."""


class Reload:
    """Reads settings anew whenever it is called, with the node's own as they were at its start."""

    def __init__(self, started: Settings, read: Callable[[], Settings], adopt: Callable[[Policies], None]) -> None:
        """`read` raises SettingsInvalid; `adopt` gets policies that were checked whole."""
        self._started = started
        self._current = started.policies
        self._read = read
        self._adopt = adopt

    def __call__(self) -> None:
        """Swap the policies, or refuse them with a line for every mistake."""
        try:
            found = self._read()
            policies = _checked(self._started, found)
        except SettingsInvalid as error:
            for mistake in str(error).splitlines():
                event(log, "settings.refused", logging.ERROR, mistake=mistake)
            metrics.RELOADS.labels("refused").inc()
            return
        changed = _changed(self._current, policies)
        self._current = policies
        self._adopt(policies)
        metrics.RELOADS.labels("adopted").inc()
        event(log, "settings.adopted", policies=",".join(changed) or "as they were")
        if differing := _needing_a_restart(self._started, found):
            event(log, "settings.need_restart", logging.WARNING, settings=",".join(differing))


def _checked(started: Settings, found: Settings) -> Policies:
    """Return the policies that were found, if they also fit to what this node was started with."""
    both = started.model_copy(update={name: getattr(found, name) for name in _OF_POLICIES})
    if mistakes := contradictions(both):
        raise SettingsInvalid("\n".join(mistakes))
    return both.policies


def _changed(old: Policies, new: Policies) -> list[str]:
    """Return the kinds with another policy than before; `default` stands for those that have none of their own."""
    kinds = sorted(old.by_kind.keys() | new.by_kind.keys())
    return [
        *(["default"] if old.default != new.default else []),
        *(kind for kind in kinds if old.of(kind) != new.of(kind)),
    ]


def _needing_a_restart(started: Settings, found: Settings) -> list[str]:
    names = (name for name in Settings.model_fields if name not in _OF_POLICIES)
    return [f"{knobs.PREFIX}{name.upper()}" for name in names if getattr(started, name) != getattr(found, name)]
