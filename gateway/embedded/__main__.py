"""The command `python -m gateway.embedded`: settings in, a node in the foreground, exit codes out."""

import argparse
import logging
import os
import sys

from gateway.contract import knobs
from gateway.embedded.foreground import End, NodeFailedError, NodeInUseError, run
from gateway.embedded.node import DEFAULT_DATA, DEFAULT_URL, Node, NodeSettingsError

_HELP = f"""\
Runs a private, single RabbitMQ node until Ctrl-C, SIGTERM, or the end of the program that started it.

settings (environment, or lower case in lazaretto.toml):
  LAZARETTO_BROKER_URL   where the node listens, on loopback only   default {DEFAULT_URL}
  LAZARETTO_DATA         the folder that holds its data and logs    default {DEFAULT_DATA}

exit codes: 0 stopped as asked, 2 settings, folder or port, 3 the node did not start or died
"""


def main(argv: list[str]) -> int:
    """Run the node that the settings describe; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m gateway.embedded", description=_HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="validate the settings, look for RabbitMQ, and exit")
    parser.add_argument(
        "--parent", type=int, metavar="PID", help="end with this process (default: the one that starts this command)"
    )
    options = parser.parse_args(argv)
    try:
        table = knobs.read_table(os.environ)
        complaints = knobs.unknown(os.environ, table)
        node = Node.from_settings(os.environ, table)
    except (NodeSettingsError, ValueError) as error:
        return _complain(2, str(error))
    if complaints:
        return _complain(2, *complaints)
    if not (node.scripts / "rabbitmq-server").exists():
        return _complain(
            3,
            f"RabbitMQ is not installed ({node.scripts} is missing).",
            "Install it with `apt-get install rabbitmq-server` or `make setup`, or name another broker in"
            " LAZARETTO_BROKER_URL and do without a private node.",
        )
    if options.check:
        print(f"private node at {node.address}, data in {node.folder}")
        return 0
    # The client reports each refused connection as an error; while a node starts they are what we wait through.
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)
    try:
        end = run(node, parent=_parent(options.parent))
    except NodeInUseError as error:
        return _complain(2, str(error))
    except NodeFailedError as error:
        return _complain(3, str(error))
    return _complain(3, f"the node at {node.address} died") if end is End.DIED else 0


def _parent(named: int | None) -> int | None:
    """Return the process to end with. One started by init (or as the first of a container) ends when it is told to."""
    if named is not None:
        return named
    parent = os.getppid()
    return parent if parent > 1 else None


def _complain(code: int, *lines: str) -> int:
    for line in lines:
        print(f"gateway.embedded: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
