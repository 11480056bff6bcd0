"""`python -m gateway.station`: arguments and environment become settings, then a verb; exit codes.

Owns the exit codes of the station. Holds no rule of its own.
"""

import gc

gc.disable()  # looks for garbage among modules, which are here to stay, were a tenth of the start

import argparse
import asyncio
import io
import sys
import threading

import sqlalchemy as sa

from gateway.amqp.broker import BrokerUnreachable, TopologyConflict
from gateway.contract import logs
from gateway.depot import DepotUnusable
from gateway.key_lines import BadKeyFile
from gateway.settings import SettingsError, StationSettings, help_text, load
from gateway.station import command_line, keys_verb
from gateway.station.channels import ChannelUnusable
from gateway.station.revisions import StoreVersion
from gateway.tracing import TracesUnavailable

gc.freeze()  # nor through them when something else is looked for, or at the end
gc.enable()

_USAGE = 2
_UNREACHABLE = 3
_CONFLICT = 4
_COMMAND = "lazaretto-station"
"""As the package installs it."""


def main() -> int:
    """Run one verb and return its exit code."""
    parser = _parser()
    arguments = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # tickets come in every script, terminals do not
    if arguments.verb == "completion":
        return _complete(parser, arguments)
    try:
        settings = load(StationSettings)
    except SettingsError as error:
        print("settings are not valid:", *error.problems, sep="\n", file=sys.stderr)
        return _USAGE
    if arguments.verb == "keys":
        return keys_verb.run(arguments, settings.desk_keys)
    logs.configure(settings.log)
    threading.excepthook = _unless_late
    try:
        return asyncio.run(_run(arguments, settings))
    except ChannelUnusable as error:
        print(f"LAZARETTO_ALERT_URLS: {error}", file=sys.stderr)
        return _USAGE
    except DepotUnusable as error:
        print(f"LAZARETTO_ATTACHMENTS: {error}", file=sys.stderr)
        return _USAGE
    except BadKeyFile as error:
        print("LAZARETTO_DESK_KEYS:", *error.problems, sep="\n", file=sys.stderr)
        return _USAGE
    except (StoreVersion, TracesUnavailable) as error:
        print(error, file=sys.stderr)
        return _USAGE
    except (sa.exc.SQLAlchemyError, OSError) as error:
        print(f"cannot use the store or the address: {error}", file=sys.stderr)
        return _USAGE
    except BrokerUnreachable as error:
        print(f"no broker answers: {error}\nstart one, or point LAZARETTO_BROKER_URL to it", file=sys.stderr)
        return _UNREACHABLE
    except TopologyConflict as error:
        print(f"the broker's topology differs: {error}", file=sys.stderr)
        return _CONFLICT


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gateway.station",
        description="The quarantine station: keeper, alerts and desk, and the reviewers' verbs.",
        epilog=help_text(StationSettings),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    serving = verbs.add_parser("serve", help="take items in, send alerts, offer the desk")
    serving.add_argument("--check", action="store_true", help="try store, broker, topology and alert URLs, and exit")
    command_line.add_verbs(verbs)
    keys_verb.add_arguments(verbs.add_parser("keys", help="make, list and revoke the keys of people at the desk"))
    completing = verbs.add_parser("completion", help="print the code that has a shell complete these commands")
    completing.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    completing.add_argument("--name", default=_COMMAND, help=f"what the command is called (default: {_COMMAND})")
    return parser


def _complete(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    import shtab  # noqa: PLC0415 - for this alone

    parser.prog = arguments.name
    print(shtab.complete(parser, shell=arguments.shell))
    return 0


async def _run(arguments: argparse.Namespace, settings: StationSettings) -> int:
    if arguments.verb != "serve":
        return await command_line.run(arguments, settings)
    from gateway.station import service  # noqa: PLC0415 - the web server would make every verb slow to start

    if arguments.check:
        print(*await service.check(settings), sep="\n")
    else:
        await service.serve(settings)
    return 0


def _unless_late(told: threading.ExceptHookArgs) -> None:
    """Say nothing of a database's thread that ends after the loop did: what it had to tell, nobody waits for."""
    if not (told.exc_type is RuntimeError and str(told.exc_value) == "Event loop is closed"):
        threading.__excepthook__(told)


if __name__ == "__main__":
    sys.exit(main())
