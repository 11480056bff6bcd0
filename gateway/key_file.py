"""Files of keys on disk: read whole, and changed one at a time.

Owns what makes such a file fit to be trusted, and how it is replaced; knows nothing of what its lines mean.
"""

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from gateway.key_lines import BadKeyFile

_MAX_FILE: Final = 64 << 20
_FRESH_MODE: Final = 0o644
_OTHERS: Final = 0o007


def read_text(path: Path) -> tuple[str, bool]:
    """Return the file's text and whether everybody may read it; raises BadKeyFile, naming the file."""
    try:
        with path.open("rb") as file:
            found = file.read(_MAX_FILE + 1)
            mode = stat.S_IMODE(path.stat().st_mode)
        if len(found) > _MAX_FILE:
            raise BadKeyFile([f"key file {path}: larger than {_MAX_FILE} bytes"])
        text = found.decode("utf-8")
    except OSError as error:
        raise BadKeyFile([f"key file {path}: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise BadKeyFile([f"key file {path}: no UTF-8 at byte {error.start}"]) from None
    if mode & stat.S_IWOTH:
        raise BadKeyFile([f"key file {path}: everybody may write to it, so anybody could have made these keys"])
    return text, bool(mode & stat.S_IROTH)


@contextlib.contextmanager
def changing(path: Path, holds_secrets: Callable[[str], bool]) -> Iterator[list[str]]:
    """Give the file's lines to be changed, and put them in its place at once; nobody else changes it meanwhile.

    `holds_secrets` reads a text whole, raises BadKeyFile for one with a mistake, and tells whether others must not read
    the file.
    """
    path = path.resolve()  # a link stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        text = path.read_text("utf-8") if path.exists() else ""
        holds_secrets(text)  # a file with a mistake is mended by hand, not made worse
        lines = text.splitlines()
        mode = path.stat().st_mode & 0o777 if path.exists() else _FRESH_MODE
        yield lines
        if holds_secrets("\n".join(lines)):
            mode &= ~_OTHERS
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".keys-", delete=False) as new:
            try:
                new.writelines(f"{line}\n" for line in lines)
                new.flush()
                os.fchmod(new.fileno(), mode)
                os.fsync(new.fileno())
                Path(new.name).replace(path)
            except BaseException:
                Path(new.name).unlink(missing_ok=True)
                raise
        os.fsync(folder)
    finally:
        os.close(folder)
