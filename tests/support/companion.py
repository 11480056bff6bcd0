"""Servers that a test process starts for itself, and that end with it, however it ends.

Never for programs under test: those are to end in order, and who would not is named.
"""

from collections.abc import Sequence


def companion(argv: Sequence[str], *, death: str = "KILL") -> list[str]:
    """Return the command that becomes `argv` and gets the signal `death` when the thread that started it is no more.

    The kernel forgets the wish when a process changes its user, so whoever does that does it before this command runs.
    """
    return ["setpriv", "--pdeathsig", death, "--", *argv]
