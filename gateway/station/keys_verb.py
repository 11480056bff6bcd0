"""The verb `keys`: make, list and revoke the keys of people at the desk.

Owns its arguments and what it prints. A key's text is printed once and kept nowhere.
"""

import argparse
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from gateway import api_key, key_file
from gateway.key_commands import expiry
from gateway.key_lines import BadKeyFile, is_entry
from gateway.station import reviewer_keys, wording
from gateway.station.documents import written
from gateway.station.identity import Role
from gateway.station.reviewer_keys import ReviewerKey

OK: Final = 0
REFUSED: Final = 1
USAGE: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    acts = parser.add_subparsers(dest="act", required=True, metavar="new | list | revoke")
    new = acts.add_parser("new", help="make a key, print it once, and add its line to the file")
    new.add_argument("--name", required=True, type=_person, help="whose key it is, as the audit log will say")
    new.add_argument("--role", required=True, type=Role, choices=list(Role), metavar="ROLE", help=", ".join(Role))
    new.add_argument("--expires", type=expiry, help="a date such as 2027-01-31, or a time from now such as 90d")
    acts.add_parser("list", help="show the keys, by id")
    revoke = acts.add_parser("revoke", help="take a key out of the file; whoever came in with it is out")
    revoke.add_argument("id", help="the key's id, the part between lz_ and the second _")
    for act in acts.choices.values():
        act.add_argument("--file", type=Path, help="the key file; default: LAZARETTO_DESK_KEYS")
        act.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace, configured: Path | None) -> int:
    """Do what was asked for and return the exit code."""
    path: Path | None = arguments.file or configured
    try:
        if arguments.act == "new":
            return _new(arguments, path)
        if path is None:
            return _fail(REFUSED, "no key file: name one with --file or LAZARETTO_DESK_KEYS")
        return _list(arguments, path) if arguments.act == "list" else _revoke(arguments, path)
    except BadKeyFile as error:
        return _fail(USAGE, *(f"key file: {problem}" for problem in error.problems))
    except (OSError, ValueError) as error:
        return _fail(USAGE, str(error))


def _new(arguments: argparse.Namespace, path: Path | None) -> int:
    fresh = api_key.new()
    key = ReviewerKey(
        id=fresh.id,
        name=arguments.name,
        role=arguments.role,
        sha256=fresh.digest,
        created=datetime.now(UTC).replace(microsecond=0),
        expires=arguments.expires,
    )
    if path is not None:
        with key_file.changing(path, _without_secrets) as lines:
            lines.append(reviewer_keys.line(key))
    if arguments.json:
        print(written({**_shown(key), "key": fresh.text, "line": reviewer_keys.line(key)}, indent=True))
        return OK
    print(fresh.text)
    if path is None:
        print(reviewer_keys.line(key))
        _say(
            "the first line is the key, shown this once; the last one belongs into the file that LAZARETTO_DESK_KEYS"
            " names"
        )
    else:
        _say(f"key {key.id} of {key.name}, {key.role}, is in {path}; what is printed above is shown this once")
    return OK


def _list(arguments: argparse.Namespace, path: Path) -> int:
    ring = reviewer_keys.read(key_file.read_text(path)[0])
    if arguments.json:
        print(written([_shown(key) for key in ring], indent=True))
        return OK
    for key in ring:
        until = "" if key.expires is None else f"  until {wording.clock(key.expires.timestamp())}"
        print(f"{key.id}  {key.role:<8}  {_state(key):<7}  {wording.one_line(key.name)}{until}")
    return OK


def _revoke(arguments: argparse.Namespace, path: Path) -> int:
    name = arguments.id.removeprefix("lz_").partition("_")[0]
    with key_file.changing(path, _without_secrets) as lines:
        left = [line for line in lines if not (is_entry(line) and reviewer_keys.read(line).named(name))]
        found = len(left) < len(lines)
        lines[:] = left
    if not found:
        return _fail(REFUSED, f"no key {name} in {path}")
    _say(f"key {name} is revoked; the desk takes note of it within a few seconds")
    return OK


def _shown(key: ReviewerKey) -> dict[str, Any]:
    moments = {name: None if moment is None else moment.isoformat() for name, moment in _moments(key)}
    members = {name: value for name, value in asdict(key).items() if name != "sha256"}
    return {**members, **moments, "state": _state(key)}


def _moments(key: ReviewerKey) -> list[tuple[str, datetime | None]]:
    return [("created", key.created), ("expires", key.expires)]


def _state(key: ReviewerKey) -> str:
    return "expired" if key.expired(datetime.now(UTC).timestamp()) else "valid"


def _without_secrets(text: str) -> bool:
    reviewer_keys.read(text)
    return False


def _person(text: str) -> str:
    try:
        return reviewer_keys.person(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _say(text: str) -> None:
    print(f"lazaretto: {text}", file=sys.stderr)


def _fail(code: int, *problems: str) -> int:
    for problem in problems:
        _say(wording.one_line(problem, 1000))
    return code
