"""One order on its way to its report: what it waits for, and the limits of its patience.

Owns the timers of a run. Decides nothing: that a limit has passed is told to `overdue`, by the run's name.
"""

import asyncio
from collections.abc import Callable

from consumer.evidence import Death, Trial
from consumer.execution import RunOrder, RunReport
from consumer.forbearance import Forbearance
from consumer.intentions import Cause
from consumer.leash import Leash
from consumer.pipe import Noted
from consumer.spending import Keep, Spending
from gateway.contract.outcomes import Outcome


class UnderWay:
    """An order that has no report yet; `started` and `spent` are its caller's, as an executor takes them."""

    def __init__(
        self,
        order: RunOrder,
        *,
        started: Callable[[int], None] | None,
        spent: Keep | None,
        overdue: Callable[[str, Cause], None],
    ) -> None:
        self.order = order
        self.started = started
        self.spending = Spending(order.ticket, spent, self._acknowledge)
        self.revoked_with: Outcome | None = None
        self.trial: Trial | None = None
        self.leash: Leash | None = None
        self.death: Death | None = None
        self._loop = asyncio.get_running_loop()
        self._report: asyncio.Future[RunReport] = self._loop.create_future()
        self._overdue = overdue
        self._deadline: asyncio.TimerHandle | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._heartbeat: Forbearance | None = None

    async def report(self) -> RunReport:
        """Wait for the end, and until all that was spent is durable."""
        report = await self._report
        await self.spending.settled()
        return report

    def begin(self, leash: Leash, trial: Trial) -> None:
        """Arm the limits; its worker has not heard of it yet."""
        self.leash, self.trial = leash, trial
        self._deadline = self._loop.call_later(self.order.deadline, self._overdue, self.order.run, Cause.DEADLINE)
        if self.order.heartbeat > 0:
            self._heartbeat = Forbearance(
                self.order.heartbeat, lambda: self._overdue(self.order.run, Cause.SILENT), listen=self._listen
            )

    def heard(self) -> None:
        """The handler has given a sign of life."""
        if self._heartbeat is not None:
            self._heartbeat.renew()

    def revoke(self, outcome: Outcome, grace: float) -> None:
        """Its claim is gone; after `grace` seconds it is overdue, and reported with `outcome`."""
        self.revoked_with = outcome
        if self.trial is not None:
            self.trial.revoked_with = outcome
        if self._grace is not None:
            self._grace.cancel()
        self._grace = self._loop.call_later(grace, self._overdue, self.order.run, Cause.REVOKED)

    def end(self, report: RunReport) -> None:
        """Give the report."""
        for timer in (self._deadline, self._grace, self._heartbeat):
            if timer is not None:
                timer.cancel()
        if not self._report.done():  # its waiter may have been cancelled, against the rules
            self._report.set_result(report)

    def _listen(self) -> None:
        if self.leash is not None:
            self.leash.read()
        if self.spending.pending:
            self.heard()  # it waits for us, and cannot speak

    def _acknowledge(self, number: int) -> None:
        self.heard()
        if self.leash is not None and not self.leash.closed:
            self.leash.send(Noted(run=self.order.run, number=number))
