"""What people write today: aiohttp that takes a POST and, unless `--bare`, publishes it confirmed through aio-pika.

Checks nothing but that the body is JSON. Persistent, mandatory, to a quorum queue, as the product's own door does, and
on the event loop that it takes by itself: uvloop where that is installed.
"""

import argparse
import asyncio
import json
import sys
from uuid import uuid4

from aiohttp import web

from benchmarks.peers.publishing import publisher
from gateway.contract import event_loop


async def _main(arguments: argparse.Namespace) -> None:
    publish = None if arguments.bare else await publisher(arguments.broker, arguments.queue)

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        json.loads(body)
        ticket = str(uuid4()) if publish is None else await publish(body)
        return web.json_response({"id": ticket, "state": "accepted"}, status=202)

    async def alive(_: web.Request) -> web.Response:
        return web.json_response({})

    application = web.Application()
    application.router.add_post("/v1/tickets", take)
    application.router.add_get("/readyz", alive)
    runner = web.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", arguments.port).start()
    await asyncio.Event().wait()


def main() -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.door")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--broker", default="")
    parser.add_argument("--queue", default="peer")
    parser.add_argument("--bare", action="store_true", help="answer without publishing")
    with asyncio.Runner(loop_factory=event_loop.factory("auto")) as runner:
        runner.run(_main(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
