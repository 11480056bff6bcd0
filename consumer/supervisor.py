"""One fleet node: boot, take deliveries, run, settle, start over after a loss, drain.

Reads as a table of contents. Owns the tasks of the deliveries under way and the order of start and stop; decides
nothing itself (claim, verdict) and acknowledges nothing itself (settlement).
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar

from consumer import rhythm
from consumer.dependencies import BreakerView
from consumer.execution import Executor
from consumer.fence import Fence
from consumer.handling import Handling
from consumer.heart import Heart
from consumer.intake import Intake
from consumer.journal import Journal
from consumer.link import Link
from consumer.policy import Policies
from consumer.self_report import SelfReport, Situation
from consumer.session import BrokerUnreachable, Delivery, Session, SessionLost
from consumer.settings import Settings
from consumer.settlement import Settlement
from consumer.shelter import Shelter
from consumer.traced import TracedRoads
from consumer.watchdog import Watchdog
from gateway.contract.journal import Event, EventName
from gateway.contract.logs import event
from gateway.contract.outcomes import Outcome
from gateway.tracing import OFF, Traces

log = logging.getLogger("consumer.supervisor")

T = TypeVar("T")

_IMPATIENT: Final = (
    "runs are ended earlier from now on; raise the broker's consumer_timeout, or shorten LAZARETTO_RUN_DEADLINE and set"
    " LAZARETTO_ACK_TIMEOUT to what the broker has"
)

_RECONNECT_FIRST: Final = 0.2
_RECONNECT_CAP: Final = 5.0
_YOUNG_SECONDS: Final = 10.0
_YOUNG_PAUSE_CAP: Final = 30.0
_KILL_SECONDS: Final = 10.0
"""A killed worker's report is here long before this; past it the node ends without it."""
_TELL_SECONDS: Final = 5.0
"""A broker with an alarm confirms nothing; what it was not told, the next node tells it again."""
_STARVED_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.5


class Supervisor:
    """Runs one lane of one node until it is told to drain."""

    def __init__(self, settings: Settings, executor: Executor, fence: Fence, traces: Traces = OFF) -> None:
        self._settings = settings
        self._executor = executor
        self._heart = Heart(settings, fence)
        self._topology = settings.topology
        self._settlement = Settlement(self._topology, fence, node=settings.name, lane=settings.lane)
        self._draining = asyncio.Event()
        self._shelter = Shelter(settings, executor, ends=self._draining)
        self.guard = self._shelter.guard
        self._watchdog = Watchdog(settings.lane, patience=settings.watchdog)
        self.left_in_storm = False
        """Whether this node has ended because its handler's build is to blame."""
        self._handling = Handling(
            settings,
            executor,
            fence,
            self._settlement,
            self._heart,
            guard=self.guard,
            is_withdrawing=lambda: self._draining.is_set() or self._is_starved or self.guard.is_tripped,
            outage_window=self._outage_window,
            roads=TracedRoads(traces, self._topology, settings.lane),
        )
        self._is_starved = False
        self._link: Link | None = None
        self._regained_at: float | None = None
        self._young = 0
        self._deliveries: set[asyncio.Task[None]] = set()
        self._report = SelfReport(
            settings,
            executor,
            look=lambda: Situation(obstacles=self.obstacles, under_way=self.under_way, waiting=self._watchdog.waiting),
            link=lambda: self._link,
        )

    @property
    def obstacles(self) -> list[str]:
        """What keeps deliveries from being taken, run and settled here; a node without slots needs less."""
        found = {
            "draining": self._draining.is_set(),
            "not_connected": self._link is None,
            "no_worker": not self._has_workers,
            "store_unavailable": not self._settlement.fence_answers,
            "storm": self.guard.is_tripped,
            "nothing_arrives": self._watchdog.barks,
        }
        return [name for name, is_so in found.items() if is_so]

    @property
    def _has_workers(self) -> bool:
        return self._executor.ready > 0 or not self._executor.slots

    @property
    def breakers(self) -> list[BreakerView]:
        """The breakers of all dependencies that were ever said to be down, by name."""
        return list(self._handling.dependencies.views())

    @property
    def under_way(self) -> int:
        """Runs that have started and not ended."""
        return len(self._handling.running)

    def adopt(self, policies: Policies) -> None:
        """Follow other policies from now on; what is under way keeps the one it was claimed with."""
        self._handling.policies = policies

    def drain(self) -> None:
        """Ask for the end: finish or release what is under way, then return from `run`."""
        self._draining.set()

    def tell_growth(self, facts: Mapping[str, Any]) -> None:
        """Journal what a leak hunt has found; without a session the log has to do."""
        if self._link is not None:
            data = {**facts, "lane": self._settings.lane}
            name = self._settings.name
            found = Event(event=EventName.LEAK, at=time.time(), ticket="", kind="", node=name, data=data)
            self._link.journal.note(found)

    async def run(self) -> None:
        """Serve until drained; raises BrokerUnreachable or TopologyConflict when the first session cannot be opened."""
        await self.unless_draining(self._heart.beat())  # before anything can be licensed to this node
        rhythms = [
            asyncio.create_task(rhythm.keep(each), name=name)
            for name, each in (
                ("beat", self._heart.beat_on),
                ("storm-looks", self._shelter.look_on),
                ("roundup", self._handling.roundup.tell_on),
                ("self-report", self._report.tell_on),
            )
        ]
        try:
            session = await self.unless_draining(self._open_session())
            while session is not None:
                opened = time.monotonic()
                await self._serve(session)
                lived = time.monotonic() - opened
                session = None if self._draining.is_set() else await self._regain_session(lived)
        finally:
            for kept in rhythms:
                kept.cancel()
            await asyncio.gather(*rhythms, return_exceptions=True)
            await self._stop_runs()
            self._handling.roundup.tell()
            await self._shelter.close()

    # One session

    async def _open_session(self) -> Session:
        settings = self._settings
        return await Session.open(
            settings.broker_urls,
            self._topology,
            settle=settings.queue_settle,
            confirm_deadline=settings.confirm_deadline,
        )

    async def _serve(self, session: Session) -> None:
        """Take deliveries until the session is lost, the node drains, or it has no worker left to run them."""
        queue = self._topology.lane_queue(self._settings.lane)
        intake = Intake(session, queue, slots=self._executor.slots, on_delivery=self._take)
        link = self._link = Link(session, Journal(session, self._topology), intake)
        ends = [
            asyncio.create_task(self._draining.wait(), name="draining"),
            asyncio.create_task(self._starved(), name="starved"),
            asyncio.create_task(self.guard.tripped.wait(), name="storm"),
            asyncio.ensure_future(session.lost),
        ]
        watching = asyncio.create_task(self._watchdog.watch(session, intake, queue), name="watchdog")
        try:
            await self._shelter.look()
            if not self.guard.is_tripped:
                await intake.open()
                if self._executor.slots:
                    event(
                        log,
                        "consumer.consuming",
                        queue=queue,
                        slots=self._executor.slots,
                        broker=session.broker_version,
                    )
                else:
                    event(log, "consumer.takes_nothing", logging.WARNING, queue=queue, why="LAZARETTO_WORKERS is 0")
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not session.is_lost:
                await self._step_back(link)
        except SessionLost:
            pass  # told below, like every other loss
        finally:
            for end in (*ends, watching):
                end.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self._link = None
            if session.is_lost or not self._draining.is_set():
                session.end("the node starts over")
                self._cut_off(link, await session.lost)
            self._is_starved = False
            await link.journal.close()
            await session.close()

    async def _step_back(self, link: Link) -> None:
        """Stop claiming for the reason that there is."""
        if not self._draining.is_set():
            await (self._take_shelter(link) if self.guard.is_tripped else self._withdraw(link))
        if self._draining.is_set() and not link.session.is_lost:
            await self._drain(link)

    async def _take_shelter(self, link: Link) -> None:
        """Claim nothing while the handler's build is to blame; what runs may finish, what has not started goes back."""
        self._give_back_unstarted()
        await link.intake.pause()
        if await self._shelter.wait(link, self._handling.policies, under_way=self._deliveries):
            self.left_in_storm = True
            self.drain()

    def _give_back_unstarted(self) -> None:
        """Release what is here and has no worker yet: nothing of it may start any more."""
        for run in list(self._handling.unstarted):
            self._executor.revoke(run, outcome=Outcome.RELEASED, grace=0)

    async def _starved(self) -> None:
        """Return when no worker has been there for so long that what is taken would only wait here."""
        unready = 0.0
        while unready < _STARVED_SECONDS:
            await asyncio.sleep(_LOOK_SECONDS)
            unready = 0.0 if self._has_workers else unready + _LOOK_SECONDS

    async def _withdraw(self, link: Link) -> None:
        """Give everything back, uncharged, until there is a worker again; others may have theirs."""
        event(log, "workers.missing", logging.ERROR, slots=self._executor.slots)
        self._is_starved = True
        for run in list(self._handling.running):
            self._executor.revoke(run, outcome=Outcome.RELEASED, grace=0)
        await link.intake.pause()
        await self._settled_within(_KILL_SECONDS)
        while not self._executor.ready and not self._draining.is_set() and not link.session.is_lost:
            await self._drain_within(_LOOK_SECONDS)

    def _cut_off(self, link: Link, reason: str) -> None:
        """Tell the runs of a lost session at once; they are killed after a grace shorter than any reclaim (P10)."""
        event(log, "session.lost", logging.WARNING, reason=reason, under_way=len(self._handling.running))
        if (known := self._handling.patience.learn(reason)) != self._handling.patience:
            self._handling.patience = known
            event(log, "broker.impatient", logging.ERROR, ack_timeout=known.seconds, advice=_IMPATIENT)
        for run, owner in self._handling.running.items():
            if owner is link:
                self._executor.revoke(run, outcome=Outcome.OUTAGE, grace=self._settings.lost_grace)

    async def _regain_session(self, lived: float) -> Session | None:
        """Return the next session however long the broker is away, or None when told to drain meanwhile.

        `lived` is how many seconds the last one did: sessions that die young, whatever of, are followed by a pause
        that grows, or one bad delivery would spin the node, and its neighbours, up to the broker's delivery limit.
        """
        self._young = self._young + 1 if lived < _YOUNG_SECONDS else 0
        if self._young > 1:
            await self._drain_within(min(_RECONNECT_FIRST * 2**self._young, _YOUNG_PAUSE_CAP))
        pause = _RECONNECT_FIRST
        while not self._draining.is_set():
            try:
                session = await self.unless_draining(self._open_session())
            except BrokerUnreachable as error:
                event(log, "broker.unreachable", logging.WARNING, error=error, retry_after=round(pause, 2))
                await self._drain_within(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, _RECONNECT_CAP)
            else:
                self._regained_at = time.monotonic()
                return session
        return None

    async def _drain_within(self, seconds: float) -> None:
        """Let time pass, less of it when told to drain."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._draining.wait(), seconds)

    async def unless_draining(self, step: Coroutine[Any, Any, T]) -> T | None:
        """Await a step that may take long; None when told to drain first."""
        running = asyncio.create_task(step)
        draining = asyncio.create_task(self._draining.wait())
        try:
            await asyncio.wait({running, draining}, return_when=asyncio.FIRST_COMPLETED)
            return running.result() if running.done() else None
        finally:
            draining.cancel()
            running.cancel()
            await asyncio.gather(draining, running, return_exceptions=True)

    # What is here

    def _outage_window(self) -> float | None:
        """Return the window while redeliveries may be the doing of this node's own lost connection, else None (P8).

        It begins when the connection is back, not when it was lost: a broker may be away for longer than any window.
        """
        window = self._settings.outage_window
        regained = self._regained_at
        return window if regained is not None and time.monotonic() - regained <= window else None

    def _take(self, delivery: Delivery) -> None:
        link = self._link
        if link is None or link.session is not delivery.session:
            return  # its session is over: the broker has it back already
        task = asyncio.create_task(self._attend(link, delivery), name=f"delivery-{delivery.tag}")
        self._deliveries.add(task)

    async def _attend(self, link: Link, delivery: Delivery) -> None:
        try:
            await self._handling.handle(link, delivery)
        finally:  # here, and not when the task is done: that would be one more call of the loop for every item
            self._deliveries.discard(asyncio.current_task())

    # The end

    async def _drain(self, link: Link) -> None:
        """Stop claiming, give runs their grace, release the rest, tell the journal; each step has its own deadline.

        Raises SessionLost: whoever gets its deliveries now waits for no drain (P10).
        """
        grace = self._settings.drain_grace
        event(log, "drain.begun", under_way=len(self._handling.running), grace=grace)
        self._give_back_unstarted()
        await link.intake.pause()
        notice = min(self._settings.lost_grace, grace / 2)
        await link.session.until(self._settled_within(grace - notice))
        for run in list(self._handling.running):
            self._executor.revoke(run, outcome=Outcome.RELEASED, grace=notice)
        await link.session.until(self._settled_within(notice))
        self._settlement.leaves = True
        await link.session.until(self._settled_within(_KILL_SECONDS))
        self._report.say_goodbye(link)
        told = asyncio.ensure_future(link.journal.flush())
        await asyncio.wait({told}, timeout=_TELL_SECONDS)
        told.cancel()
        event(log, "drain.done", left=len(self._deliveries))

    async def _settled_within(self, seconds: float) -> None:
        if self._deliveries:
            await asyncio.wait(set(self._deliveries), timeout=seconds)

    async def _stop_runs(self) -> None:
        """End what still runs; without a session its decision is recorded in the fence at the most."""
        if self._handling.running:  # cut off: they are killed when their grace is over
            await self._settled_within(self._settings.lost_grace + _KILL_SECONDS)
        for run in list(self._handling.running):
            self._executor.revoke(run, outcome=Outcome.RELEASED, grace=0)
        await self._settled_within(_KILL_SECONDS)
        for task in self._deliveries:
            task.cancel()
        await asyncio.gather(*self._deliveries, return_exceptions=True)
