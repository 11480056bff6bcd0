"""`python -m consumer`: arguments and environment become settings, an executor, a supervisor, and an exit code."""

import gc

gc.disable()  # looks for garbage among modules, which are here to stay, were a tenth of the start

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from consumer.declaring import TopologyConflict
from consumer.errors import Exit
from consumer.execution import Executor, ExecutorUnavailable
from consumer.fence import Fence, FenceUnavailable, Open, StoreFence
from consumer.node import Node
from consumer.pool import Pool
from consumer.recycle import Limits
from consumer.reload import Reload
from consumer.session import BrokerUnreachable, Session
from consumer.settings import Isolation, Settings, SettingsInvalid, describe, load
from consumer.signals import Signals
from consumer.supervisor import Supervisor
from gateway import tracing
from gateway.contract import event_loop, kind_limits, logs, rules
from gateway.contract.kind_limits import KindLimits
from gateway.contract.logs import event
from gateway.contract.topology import Lane

gc.freeze()  # nor through them when something else is looked for, or at the end
gc.enable()

log = logging.getLogger("consumer")

_YOUNG: Final = 10_000
"""Objects between two collections of the youngest. What is under way is a fifth of that and nearly all goes by itself:
after 700 of them it was looked through for every tenth item, and next to none of it was garbage."""
_LARGE_TEXT: Final = 65_536
"""Bytes that few texts have."""
_SECRET = {"broker_url", "store_url"}


def main() -> int:
    """Run one node to its end; returns the exit code."""
    arguments = _parser().parse_args()
    overrides: dict[str, Any] = {
        name: value
        for name in ("handler", "lane", "workers", "isolation", "leak_hunt")
        if (value := getattr(arguments, name)) is not None
    }
    try:
        settings = load(overrides)
    except SettingsInvalid as error:
        print(f"settings are not valid:\n{error}", file=sys.stderr)
        return Exit.USAGE
    logs.configure(settings.log)
    try:
        settings.data.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"LAZARETTO_DATA={settings.data}: {error.strerror or error}", file=sys.stderr)
        return Exit.USAGE
    try:
        loops = event_loop.factory(settings.event_loop)
        tracing.are_wanted(os.environ)
        executor = _executor(settings)
        again = partial(load, overrides)
        with asyncio.Runner(loop_factory=loops) as runner:
            return runner.run(_check(settings, executor) if arguments.check else _serve(settings, executor, again))
    except (event_loop.NotInstalled, tracing.TracesUnavailable) as error:
        print(error, file=sys.stderr)
        return Exit.USAGE
    except ExecutorUnavailable as error:
        print(error, file=sys.stderr)
        return Exit.USAGE
    except BrokerUnreachable as error:
        print(f"no broker answers: {error}\nstart one, or point LAZARETTO_BROKER_URL to it", file=sys.stderr)
        return Exit.BROKER_UNREACHABLE
    except TopologyConflict as error:
        print(f"the broker's topology differs: {error}", file=sys.stderr)
        return Exit.TOPOLOGY_CONFLICT
    except FenceUnavailable as error:
        print(f"the fence has no store: {error}\nsee LAZARETTO_STORE_URL, or set LAZARETTO_FENCE=off", file=sys.stderr)
        return Exit.USAGE


def _executor(settings: Settings) -> Executor:
    """Start the mold or load the handler, before any event loop runs; raises ExecutorUnavailable."""
    limits = {
        "max_body_bytes": settings.max_body_bytes,
        "max_tokens": settings.max_tokens,
        "max_attachments": settings.max_attachments,
        "encoding": settings.encoding,
        "depot": settings.depot,
        "rules": {str(rule): mode.value for rule, mode in rules.read(settings.rules).items()},
        "kinds": {kind: _plain(own) for kind, own in kind_limits.read(settings.kinds).items()},
    }
    if settings.isolation is Isolation.INLINE:
        from consumer.inline import Inline  # noqa: PLC0415  brings the preflight, which else lives in the mold

        return Inline.load(settings.handler, slots=settings.slots, limits=limits, warm=_counts_often(settings))
    return Pool.launch(
        handler=settings.handler,
        slots=settings.slots,
        fresh=settings.lane is Lane.SUSPECTS,
        hard=settings.hard_limits,
        limits=limits,
        warm=_counts_often(settings),
        recycle=Limits(runs=settings.recycle_runs, rss=settings.recycle_rss),
        hunt=settings.leak_hunt,
    )


def _counts_often(settings: Settings) -> bool:
    """Tell whether tokens will be counted in more than a few texts: none is that has fewer bytes than it may tokens.

    Then the half second and the 75 MB of a vocabulary are better spent once, at the start.
    """
    caps = (own.max_tokens for own in kind_limits.read(settings.kinds).values())
    return min([settings.max_tokens, *(cap for cap in caps if cap is not None)]) < _LARGE_TEXT


def _plain(own: KindLimits) -> dict[str, Any]:
    return {**own.numbers, "rules": {str(rule): mode.value for rule, mode in own.rules.items()}}


async def _serve(settings: Settings, executor: Executor, again: Callable[[], Settings]) -> int:
    """Run until drained; `again` reads the settings anew."""
    fence = await _fence(settings)
    traces = tracing.open_traces(tracing.Service.NODE, settings.name)  # the mold is there already: no fork is to come
    supervisor = Supervisor(settings, executor, fence, traces)
    if isinstance(executor, Pool):
        executor.on_growth(supervisor.tell_growth)
    node = Node(
        obstacles=lambda: supervisor.obstacles,
        under_way=lambda: supervisor.under_way,
        breakers=lambda: supervisor.breakers,
        executor=executor,
    )
    signals = Signals(drain=supervisor.drain)
    signals.on_hang_up(Reload(settings, again, supervisor.adopt))
    signals.on_hang_up(lambda: supervisor.guard.ask_to_lift("SIGHUP"))
    signals.open()
    try:
        await supervisor.unless_draining(executor.start())
        try:
            address = await node.start(settings.node)
        except OSError as error:
            print(f"LAZARETTO_NODE={settings.node}: {error.strerror or error}; name a free address", file=sys.stderr)
            return Exit.USAGE
        event(log, "consumer.started", node=settings.name, lane=settings.lane, health=f"http://{address}/healthz")
        gc.freeze()  # what is loaded by now is here to stay: nobody need look through it again for garbage
        gc.set_threshold(_YOUNG)
        await supervisor.run()
    finally:
        await node.stop()
        await executor.stop()
        await signals.close()
        await fence.close()
        await traces.close()
    event(log, "consumer.stopped", node=settings.name, lane=settings.lane)
    return Exit.STORM if supervisor.left_in_storm else Exit.CLEAN


async def _check(settings: Settings, executor: Executor) -> int:
    """Try everything a start needs, say what was found, run nothing."""
    fence = await _fence(settings)
    try:
        await executor.start()
        session = await Session.open(
            settings.broker_urls,
            settings.topology,
            settle=settings.queue_settle,
            confirm_deadline=settings.confirm_deadline,
        )
        for name in type(settings).model_fields:
            print(f"{name} = {'(not shown)' if name in _SECRET else getattr(settings, name)}")
        print(f"handler {settings.handler}: loaded, build {executor.build}, {executor.slots} slots")
        print(f"broker: RabbitMQ {session.broker_version}")
        queues = ", ".join(queue.name for queue in settings.topology.queues() if ".delay." not in queue.name)
        print(f"topology: as declared ({queues}, {settings.prefix}.delay.*)")
        print(f"fence: {'on' if settings.fence else 'off'}")
        print(f"traces: {'on' if tracing.are_wanted(os.environ) else 'off'}")
        await session.close()
    finally:
        await executor.stop()
        await fence.close()
    return Exit.CLEAN


async def _fence(settings: Settings) -> Fence:
    return await StoreFence.open(settings.store) if settings.fence else Open()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m consumer",
        description="A fleet node: takes tickets from one lane and runs a handler for each, safely.",
        epilog="settings (environment, or in lower case in lazaretto.toml):\n" + describe(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--handler", metavar="PACKAGE.MODULE:FUNCTION", help="what to run for each ticket")
    parser.add_argument("--lane", choices=[lane.value for lane in Lane], help="which items to take (default: work)")
    parser.add_argument("--workers", type=int, metavar="N", help="runs at once")
    parser.add_argument("--isolation", choices=[item.value for item in Isolation], help="where runs happen")
    parser.add_argument(
        "--leak-hunt", type=int, metavar="N", help="say every N runs where the memory of one worker grows"
    )
    parser.add_argument("--check", action="store_true", help="try everything a start needs, report, and exit")
    return parser


if __name__ == "__main__":
    sys.exit(main())
