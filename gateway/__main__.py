"""`python -m gateway`: the door. Arguments and environment become settings, settings become a running door.

Owns exit codes: 0 clean, 1 our own bug, 2 usage or settings, 3 broker unreachable at start, 4 topology conflict.
"""

import argparse
import asyncio
import logging
import sys
from typing import Final

from sqlalchemy.engine import make_url

from gateway import __version__, broker, key_commands
from gateway.app import AddressTaken, DoorFailed, serve
from gateway.certificate import BadCertificate, Certificate
from gateway.clients import Clients
from gateway.contract import logs
from gateway.door import START_PATIENCE
from gateway.key_ring import BadKeyFile
from gateway.preflight.vocabulary import Vocabulary, VocabularyError
from gateway.settings import DoorSettings, SettingsError, help_text, load

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
    parser.add_argument("--version", action="version", version=f"lazaretto {__version__}")
    chosen = parser.parse_args(given)
    try:
        settings = load(DoorSettings)
    except SettingsError as error:
        return _complain(USAGE, *error.problems)
    logs.configure(settings.log)
    try:
        vocabulary = Vocabulary.load(
            settings.encoding, file=settings.vocabulary, sha256=settings.vocabulary_sha256 or None
        )
    except VocabularyError as error:
        return _complain(USAGE, f"vocabulary: {error}")
    return asyncio.run(_check(settings, vocabulary) if chosen.check else _serve(settings, vocabulary))


async def _serve(settings: DoorSettings, vocabulary: Vocabulary) -> int:
    try:
        await serve(settings, vocabulary, lambda line: print(line, flush=True))
    except broker.BrokerUnreachable as error:
        return _complain(NO_BROKER, f"broker unreachable: {error}")
    except broker.TopologyConflict as error:
        return _complain(CONFLICT, f"topology conflict: {error}")
    except AddressTaken as error:
        return _complain(USAGE, str(error))
    except (BadKeyFile, BadCertificate) as error:
        return _complain(USAGE, *error.problems)
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
    except broker.TopologyConflict as error:
        return _complain(CONFLICT, f"topology conflict: {error}")
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
