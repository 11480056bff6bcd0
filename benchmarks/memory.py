"""How large does a door grow? With a long row of requests, and with clients that never come to the end of theirs.

What counts is what door and examiner have in memory together, each page once, as the kernel tells it (PSS).
"""

import asyncio
import contextlib
from collections import Counter
from typing import Any, Final

from benchmarks import client
from benchmarks.house import House
from benchmarks.programs import family, resident_mib
from benchmarks.scale import Scale
from benchmarks.waiting import BenchmarkFailed, until

_LEGS: Final = 10
_WARM: Final = 2
"""Of ten legs: what is only allocated at first use is there by then."""
_DECLARED: Final = 256 * 1024
_AT_ONCE: Final = 128 * 1024
"""Bytes of a slow upload that are there at once; the rest comes a piece a second, fast enough to be waited for."""
_PIECE: Final = 4 * 1024
_SECONDS: Final = 5
_WITHIN: Final = 60.0
_HEAD: Final = (
    b"POST /v1/tickets HTTP/1.1\r\nHost: door\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n" % _DECLARED
)
_BEGINNING: Final = b'{"kind": "support.ticket", "body": "'
UNANSWERED: Final = "unanswered"


def measure(scale: Scale) -> dict[str, Any]:
    """Return MiB of a door that is ready, warm, at the end, and at its largest under slow uploads."""
    with House(LAZARETTO_MAX_QUEUED="10000000") as house:
        door = house.door()
        until(lambda: len(family(door.pid)) > 1, _WITHIN, "its examiner is there")  # a moment after the door itself
        ready = resident_mib(door.pid)
        series = []
        for _ in range(_LEGS):
            client.send(house.door_port, scale.steady // _LEGS)
            series.append(round(resident_mib(door.pid), 1))
        peak, statuses = asyncio.run(_held(house.door_port, door.pid, scale.uploads))
        client.send(house.door_port, client.CONNECTIONS)  # it admits again
    if set(statuses) - {UNANSWERED, "503"}:
        raise BenchmarkFailed(f"a body that had not ended was answered: {dict(statuses)}")
    return {
        "rss_mib_ready": round(ready, 1),
        "rss_mib": series[-1],
        "rss_growth_mib": round(max(series[_WARM:]) - series[_WARM - 1], 1),
        "rss_mib_by_tenth": series,
        "requests": scale.steady,
        "slow_uploads": scale.uploads,
        "slow_uploads_rss_mib": round(peak, 1),
        "slow_uploads_statuses": dict(statuses),
    }


async def _held(port: int, pid: int, clients: int) -> tuple[float, Counter[str]]:
    """Hold `clients` uploads open for some seconds; return the most MiB that the door had, and what was answered."""
    statuses: Counter[str] = Counter()
    peak = 0.0
    async with asyncio.TaskGroup() as uploading:
        uploads = [uploading.create_task(_upload(port)) for _ in range(clients)]
        while not all(upload.done() for upload in uploads):
            peak = max(peak, await asyncio.to_thread(resident_mib, pid))
            await asyncio.sleep(0.2)
    statuses.update(upload.result() for upload in uploads)
    return peak, statuses


async def _upload(port: int) -> str:
    """Send half a body at once and a little of the rest each second, hang up before its end; return the status."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(_HEAD + _BEGINNING.ljust(_AT_ONCE, b"x"))
            for _ in range(_SECONDS):
                with contextlib.suppress(TimeoutError):
                    answer = await asyncio.wait_for(reader.readline(), 1.0)
                    return answer.split()[1].decode() if answer else "hung up"
                writer.write(b"x" * _PIECE)
        return UNANSWERED
    finally:
        writer.transport.abort()
