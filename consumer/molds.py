"""The molds of a fleet: the one that workers are forked from, at times a successor that loads, and elder ones.

Owns their processes, their control sockets and the alarms for molds that do not load or do not leave. What a mold says
is handed on; what its end means for workers is the crew's.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from consumer.forbearance import Forbearance
from consumer.pipe import Garbled, Record
from consumer.spawn import Blueprint, Mold
from gateway.contract.logs import event

_log: Final = logging.getLogger("consumer.molds")

_LOAD_DEADLINE: Final = 120.0
"""Seconds; handlers import large libraries."""
_LEAVE_PATIENCE: Final = 2.0


class Molds:
    """Molds by number, each greater than the last one's.

    `hear` gets what they say, `gone` the number of one that has ended, or is of no use any more.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        *,
        hear: Callable[[int, Record, list[int]], None],
        gone: Callable[[int], None],
    ) -> None:
        self._blueprint = blueprint
        self._hear_record = hear
        self._gone = gone
        self._molds: dict[int, Mold] = {}
        self._alarms: dict[int, Forbearance] = {}
        self._leaving: set[int] = set()
        self._heard: set[int] = set()
        self._loading: set[int] = set()
        self._newest = 0
        self._start_alarm: asyncio.TimerHandle | None = None

    def __getitem__(self, number: int) -> Mold:
        return self._molds[number]

    def __bool__(self) -> bool:
        return bool(self._molds)

    def get(self, number: int) -> Mold | None:
        """Return the mold with this number, if it is there still."""
        return self._molds.get(number)

    @property
    def newest(self) -> int:
        """The number of the mold that was started last; 0 before there was one."""
        return self._newest

    @property
    def is_loading(self) -> bool:
        """Whether one has been started that has not said yet that it is ready."""
        return bool(self._loading)

    def launch(self) -> None:
        """Start a mold without hearing it yet; may be called before any event loop runs. Raises OSError."""
        if self._newest not in self._molds or self._newest in self._heard:
            mold = Mold.start(self._blueprint)
            self._newest += 1
            self._molds[self._newest] = mold

    def start_later(self, after: float, start: Callable[[], None]) -> None:
        """Have `start` called after so many seconds, and not when it was asked for before."""
        self.forget_start()
        self._start_alarm = asyncio.get_running_loop().call_later(after, start)

    def forget_start(self) -> None:
        """Have no mold started that was asked for."""
        if self._start_alarm is not None:
            self._start_alarm.cancel()
            self._start_alarm = None

    def start(self) -> None:
        """Start a mold, or take the one that was launched, and hear it; raises OSError."""
        self.launch()
        number = self._newest
        self._heard.add(number)
        self._loading.add(number)
        asyncio.get_running_loop().add_reader(self._molds[number].control, self.hear, number)
        self._give(number, _LOAD_DEADLINE)

    def loaded(self, number: int) -> None:
        """The mold has loaded in time."""
        self._loading.discard(number)
        self._quiet(number)

    def hear(self, number: int) -> None:
        """Read what a mold has said until there is no more for now."""
        while (mold := self._molds.get(number)) is not None:
            try:
                heard = mold.receive()
            except BlockingIOError:
                return
            except (OSError, Garbled) as error:
                event(_log, "mold.garbled", logging.ERROR, error=error)
                heard = None
            if heard is None:
                self._gone(number)
                return
            self._hear_record(number, *heard)

    def leave(self, number: int) -> None:
        """Let a mold end by itself, with the workers that it still has; in the end it is made to."""
        mold = self._molds.get(number)
        if mold is None or number in self._leaving:
            return
        self._leaving.add(number)
        mold.leave()
        self._give(number, _LEAVE_PATIENCE)

    def leave_all(self) -> None:
        """Let every mold end."""
        for number in list(self._molds):
            self.leave(number)

    def end(self, number: int) -> tuple[int, int | None, bool] | None:
        """End a mold now; return its process id, its exit status and whether it was told to leave, or None."""
        mold = self._molds.pop(number, None)
        if mold is None:
            return None
        self._quiet(number)
        if number in self._heard:
            asyncio.get_running_loop().remove_reader(mold.control)
        status = mold.kill()
        was_leaving = number in self._leaving
        self._leaving.discard(number)
        self._heard.discard(number)
        self._loading.discard(number)
        return mold.pid, status, was_leaving

    def end_all(self) -> None:
        """End every mold now, and tell of each as `gone`."""
        for number in list(self._molds):
            self._gone(number)

    def _give(self, number: int, seconds: float) -> None:
        self._quiet(number)
        self._alarms[number] = Forbearance(seconds, lambda: self._gone(number), listen=lambda: self.hear(number))

    def _quiet(self, number: int) -> None:
        if (alarm := self._alarms.pop(number, None)) is not None:
            alarm.cancel()
