"""`python -m gateway`: the door. Arguments and environment become settings, settings become a running door.

Owns exit codes: 0 clean, 1 our own bug, 2 usage or settings, 3 broker unreachable at start, 4 topology conflict.
"""

import gc

gc.disable()  # looks for garbage among modules, which are here to stay, were a tenth of the start

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable
from typing import Final

from sqlalchemy.engine import make_url

from gateway import __version__, key_commands, tracing
from gateway.amqp import broker
from gateway.app import AddressTaken, DoorFailed, serve
from gateway.certificate import BadCertificate, Certificate
from gateway.clients import Clients
from gateway.contract import event_loop, logs
from gateway.depot import DepotUnusable, open_depot
from gateway.door import START_PATIENCE
from gateway.key_lines import BadKeyFile
from gateway.membership import Membership
from gateway.preflight.vocabulary import Vocabulary, VocabularyError
from gateway.settings import DoorSettings, SettingsError, help_text, load
from gateway.supervision import NoProcess, PortTaken, Supervisor

gc.freeze()  # nor through them when something else is looked for, or at the end
gc.enable()

log = logging.getLogger("gateway")

OK: Final = 0
OUR_BUG: Final = 1
USAGE: Final = 2
NO_BROKER: Final = 3
CONFLICT: Final = 4


def main(arguments: list[str] | None = None) -> int:
    """Run the door, or check what it would run with; return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["keys"]:
        return key_commands.main(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m gateway",
        description="The door: takes tickets in over HTTP and publishes them, confirmed, to RabbitMQ."
        " `python -m gateway keys` makes, lists and revokes API keys.",
        epilog=help_text(DoorSettings),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--check", action="store_true", help="validate settings, broker, topology, vocabulary; then exit"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="processes on the one port (LAZARETTO_DOOR_WORKERS)")
    parser.add_argument("--version", action="version", version=f"lazaretto {__version__}")
    chosen = parser.parse_args(given)
    try:
        settings = load(DoorSettings, **({} if chosen.workers is None else {"door_workers": chosen.workers}))
        loops = event_loop.factory(settings.event_loop)
        tracing.are_wanted(os.environ)
    except SettingsError as error:
        return _complain(USAGE, *error.problems)
    except (event_loop.NotInstalled, tracing.TracesUnavailable) as error:
        return _complain(USAGE, str(error))
    logs.configure(settings.log)
    try:
        vocabulary = Vocabulary.at_need(
            settings.encoding, file=settings.vocabulary, sha256=settings.vocabulary_sha256 or None
        )
        vocabulary.prove()
    except VocabularyError as error:
        return _complain(USAGE, f"vocabulary: {error}")
    if settings.door_workers > 1 and not chosen.check:
        return _supervise(settings, vocabulary, loops)
    with asyncio.Runner(loop_factory=loops) as runner:
        return runner.run(_check(settings, vocabulary) if chosen.check else _serve(settings, vocabulary, _say))


def _supervise(settings: DoorSettings, vocabulary: Vocabulary, loops: event_loop.Factory) -> int:
    def be_one_of_them(own: DoorSettings, member: Membership, opened: Callable[[], object]) -> int:
        with asyncio.Runner(loop_factory=loops) as runner:
            return runner.run(_serve(own, vocabulary, lambda _: opened(), member))

    try:
        Supervisor(settings, be_one_of_them, _say).supervise()
    except (PortTaken, OSError) as error:
        return _complain(USAGE, str(error))
    except NoProcess as error:
        return _complain(error.code, str(error))
    return OK


def _say(line: str) -> None:
    print(line, flush=True)


async def _serve(
    settings: DoorSettings, vocabulary: Vocabulary, announce: Callable[[str], object], member: Membership | None = None
) -> int:
    try:
        await serve(settings, vocabulary, announce, member)
    except broker.BrokerUnreachable as error:
        return _complain(NO_BROKER, f"broker unreachable: {error}")
    except broker.TopologyConflict as error:
        return _complain(CONFLICT, f"topology conflict: {error}")
    except broker.MessageTooLarge as error:
        return _complain(USAGE, f"LAZARETTO_MAX_BODY_BYTES: {error}")
    except (AddressTaken, tracing.TracesUnavailable) as error:
        return _complain(USAGE, str(error))
    except (BadKeyFile, BadCertificate) as error:
        return _complain(USAGE, *error.problems)
    except DepotUnusable as error:
        return _complain(USAGE, f"LAZARETTO_ATTACHMENTS: {error}")
    except DoorFailed:
        log.exception("door_failed")
        return OUR_BUG
    return OK


async def _check(settings: DoorSettings, vocabulary: Vocabulary) -> int:
    print("settings: ok")
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        match name:
            case "broker_url":
                value = ", ".join(map(broker.shown, value))
            case "store_url" if value:
                value = make_url(value).render_as_string(hide_password=True)
        print(f"  {name} = {value}")
    print(f"vocabulary: {vocabulary.name}, {vocabulary.encoding.n_vocab} tokens")
    print(f"traces: {'on' if tracing.are_wanted(os.environ) else 'off'}")
    try:
        open_depot(settings.depot)
    except DepotUnusable as error:
        return _complain(USAGE, f"LAZARETTO_ATTACHMENTS: {error}")
    try:
        print(f"keys: {_keys(settings)}")
    except (BadKeyFile, BadCertificate) as error:
        return _complain(USAGE, *error.problems)
    try:
        connection = await broker.connect(settings.broker_url, name="lazaretto-check", deadline=START_PATIENCE)
    except broker.BrokerUnreachable as error:
        return _complain(NO_BROKER, f"broker unreachable: {error}")
    try:
        print(f"broker: {broker.version(connection)}")
        new = await broker.declare(connection, settings.topology)
        queues = len(settings.topology.queues())
        print(f"topology: ok, {queues} queues under the prefix {settings.prefix}, {len(new)} of them new")
        largest = max(settings.largest_bodies)
        proven = await broker.prove_size(settings.broker_url, largest, name="lazaretto-check-size")
        print(f"largest message: {largest} bytes, {'taken' if proven else 'not proven: the broker did not answer'}")
    except broker.TopologyConflict as error:
        return _complain(CONFLICT, f"topology conflict: {error}")
    except broker.MessageTooLarge as error:
        return _complain(USAGE, f"LAZARETTO_MAX_BODY_BYTES: {error}")
    except broker.LOST as error:
        return _complain(NO_BROKER, f"broker lost: {error}")
    finally:
        await broker.close(connection)
    return OK


def _keys(settings: DoorSettings) -> str:
    if settings.tls_certificate is not None and settings.tls_key is not None:
        Certificate(settings.tls_certificate, settings.tls_key).reload()
    clients = Clients(settings.keys, max_body_bytes=settings.max_body_bytes)
    clients.reload()
    return clients.summary if clients.needed else "none needed"


def _complain(code: int, *problems: str) -> int:
    for problem in problems:
        print(f"lazaretto: {problem}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
