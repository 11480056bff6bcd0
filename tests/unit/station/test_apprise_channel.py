"""A service that hangs costs a bounded number of threads, none of which anybody waits for."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.station import apprise_channel
from gateway.station.apprise_channel import AppriseChannel
from gateway.station.channels import ChannelFailed, Notice
from gateway.station.holding import AlertEvent

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
NOTICE = Notice(event=AlertEvent.QUARANTINED, key="key", title="title", text="text", fields={}, began_at=1.0)


@pytest.fixture
async def mute() -> AsyncIterator[str]:
    """A service that takes every call and never says a word."""
    callers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: callers.append(writer), "127.0.0.1", 0)
    yield f"json://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    for caller in callers:
        caller.close()
    server.close()
    await server.wait_closed()


async def test_calls_that_never_come_back_are_given_up_and_bounded(mute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apprise_channel, "NOTIFY_DEADLINE", 0.1)
    monkeypatch.setattr(apprise_channel, "MAX_STUCK", 2)
    channel = AppriseChannel(mute)
    said = []
    for _ in range(3):
        with pytest.raises(ChannelFailed) as failed:
            await channel.send(NOTICE)
        said.append(str(failed.value))
    assert said == ["no answer within 0.1 s"] * 2 + ["2 earlier calls have not come back"]


async def test_a_service_that_is_away_is_a_failure_at_once(unused_tcp_port: int) -> None:
    with pytest.raises(ChannelFailed, match="did not take it"):
        await AppriseChannel(f"json://127.0.0.1:{unused_tcp_port}/hook").send(NOTICE)
