"""`python -m gateway keys`: make, list and revoke API keys.

Owns its verbs and what they print. A key's text is printed once and kept nowhere.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import orjson

from gateway import api_key, key_file, key_lines, key_ring
from gateway.callback import Callback
from gateway.contract import knobs
from gateway.contract.ids import is_kind
from gateway.key_lines import BadKeyFile
from gateway.key_ring import CLIENT_PATTERN, Key
from gateway.quota import Rate

OK: Final = 0
REFUSED: Final = 1
USAGE: Final = 2


class Refused(Exception):
    """What was asked cannot be done; the text says why."""


def main(arguments: Sequence[str]) -> int:
    """Carry out one verb; return the exit code."""
    chosen = _parser().parse_args(arguments)
    try:
        path = chosen.file or _configured()
        verb: Callable[[argparse.Namespace, Path | None], None] = chosen.verb
        verb(chosen, path)
    except BadKeyFile as error:
        return _complain(USAGE, *(f"key file: {problem}" for problem in error.problems))
    except Refused as error:
        return _complain(REFUSED, str(error))
    except (OSError, ValueError) as error:
        return _complain(USAGE, str(error))
    return OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gateway keys", description="The API keys of the door. The file holds hashes, never a key."
    )
    parser.add_argument("--file", type=Path, help="the key file; default: LAZARETTO_KEYS")
    verbs = parser.add_subparsers(required=True, metavar="new | list | revoke")
    new = verbs.add_parser("new", help="make a key, print it once, and add its line to the file")
    new.add_argument("--client", required=True, type=_client, help="whose key it is")
    new.add_argument("--kinds", type=_kinds, help="kinds of tickets it may submit, comma separated; default: all")
    new.add_argument("--requests", type=_rate, help="the client's quota, such as 50/s or 1000/10m")
    new.add_argument("--bytes", type=_rate, help="the client's quota of body bytes, such as 5MiB/s")
    new.add_argument("--expires", type=expiry, help="a date such as 2027-01-31, or a time from now such as 90d")
    new.add_argument(
        "--callback", type=_callback, help="where its client hears of the ends of its tickets: https://..."
    )
    new.add_argument("--metrics", action="store_true", help="it may read /metrics of a door beyond loopback")
    new.set_defaults(verb=_new)
    listing = verbs.add_parser("list", help="show the keys, by id")
    listing.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    listing.set_defaults(verb=_list)
    revoke = verbs.add_parser("revoke", help="take a key out of the file")
    revoke.add_argument("id", help="the key's id, the part between lz_ and the second _")
    revoke.set_defaults(verb=_revoke)
    return parser


def _new(chosen: argparse.Namespace, path: Path | None) -> None:
    fresh = api_key.new()
    key = Key(
        id=fresh.id,
        client=chosen.client,
        sha256=fresh.digest,
        kinds=chosen.kinds,
        requests=chosen.requests,
        bytes=chosen.bytes,
        callback=chosen.callback,
        metrics=chosen.metrics,
        created=datetime.now(UTC).replace(microsecond=0),
        expires=chosen.expires,
    )
    if path is None:
        print(fresh.text)
        _print_secret(key)
        print(key_ring.line(key))
        _say("the first line is the key, shown this once; the last one belongs into the file that LAZARETTO_KEYS names")
        return
    with key_file.changing(path, _holds_secrets) as lines:
        key_ring.read("\n".join([*lines, key_ring.line(key)]))
        lines.append(key_ring.line(key))
    print(fresh.text)
    _print_secret(key)
    _say(f"key {key.id} of {key.client} is in {path}; what is printed above is shown this once")


def _print_secret(key: Key) -> None:
    if key.callback is not None:
        print(key.callback.secret)
        _say("the second line is the secret that callbacks are signed with, shown this once")


def _list(chosen: argparse.Namespace, path: Path | None) -> None:
    ring = key_ring.read(_named(path).read_text("utf-8"))
    now = datetime.now(UTC).timestamp()
    if chosen.json:
        print(orjson.dumps([_shown(key, now) for key in ring]).decode())
        return
    columns = ("id", "client", "state", "kinds", "requests", "bytes", "callback", "metrics", "expires")
    rows = [columns, *(tuple(_cell(_shown(key, now)[name]) for name in columns) for key in ring)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(columns))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _revoke(chosen: argparse.Namespace, path: Path | None) -> None:
    name = chosen.id.removeprefix("lz_").partition("_")[0]
    with key_file.changing(_named(path), _holds_secrets) as lines:
        left = [line for line in lines if not (key_lines.is_entry(line) and _has_id(line, name))]
        if len(left) == len(lines):
            raise Refused(f"no key {name} in {path}")
        lines[:] = left
    _say(f"key {name} is revoked; doors take note of it within a few seconds")


def _has_id(line: str, name: str) -> bool:
    return any(key.id == name for key in key_ring.read(line))


def _shown(key: Key, now: float) -> dict[str, object]:
    return {
        "id": key.id,
        "client": key.client,
        "state": "expired" if key.expired(now) else "valid",
        "kinds": None if key.kinds is None else list(key.kinds),
        "requests": None if key.requests is None else str(key.requests),
        "bytes": None if key.bytes is None else str(key.bytes),
        "callback": None if key.callback is None else key.callback.url,
        "metrics": key.metrics,
        "created": None if key.created is None else key.created.isoformat(),
        "expires": None if key.expires is None else key.expires.isoformat(),
    }


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "-"
        case list():
            return ",".join(value)
        case _:
            return str(value)


def _holds_secrets(text: str) -> bool:
    return bool(key_ring.read(text).callbacks)  # what they hold can sign


def _configured() -> Path | None:
    named = os.environ.get(f"{knobs.PREFIX}KEYS") or knobs.read_table(os.environ).get("keys")
    return Path(str(named)) if named else None


def _named(path: Path | None) -> Path:
    if path is None:
        raise Refused("no key file: name one with --file or LAZARETTO_KEYS")
    return path


def _client(text: str) -> str:
    if CLIENT_PATTERN.fullmatch(text) is None or text == key_ring.ANONYMOUS:
        raise argparse.ArgumentTypeError(f"a client's name matches {CLIENT_PATTERN.pattern} and is not anonymous")
    return text


def _kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(kind.strip() for kind in text.split(","))
    if not all(map(is_kind, kinds)):
        raise argparse.ArgumentTypeError("write kinds separated by commas, such as support.ticket,telemetry.sample")
    return kinds


def _rate(text: str) -> Rate:
    try:
        return Rate.read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _callback(text: str) -> Callback:
    try:
        return Callback.new(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def expiry(text: str) -> datetime:
    """Read when a key ends, as an argument has it; raises ArgumentTypeError."""
    try:
        return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=knobs.duration(text))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError("write a date such as 2027-01-31, or a time from now such as 90d") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _say(text: str) -> None:
    print(f"lazaretto: {text}", file=sys.stderr)


def _complain(code: int, *problems: str) -> int:
    for problem in problems:
        _say(problem)
    return code
