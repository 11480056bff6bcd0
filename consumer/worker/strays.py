"""What a dead worker leaves behind: processes that left its group, and would go on with a ticket that nobody runs.

Owns these until they are dead and waited for. The kernel hands an orphan to its nearest living ancestor that asked for
orphans (prctl(2), PR_SET_CHILD_SUBREAPER): to its worker while that lives, then to the mold. What the handler's module
had started in the mold before any worker is not touched.
"""

import contextlib
import os
import select
import signal

from consumer.worker.lineage import children


class Strays:
    """The mold's children that are no workers. Made when the handler has been loaded; `sweep` after each death."""

    def __init__(self, poll: select.poll) -> None:
        self._poll = poll
        self._spared = frozenset(children(os.getpid()))
        self._dying: dict[int, int] = {}
        """Process ids by pidfd."""

    def __contains__(self, descriptor: int) -> bool:
        return descriptor in self._dying

    def __bool__(self) -> bool:
        return bool(self._dying)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What is held open for them."""
        return tuple(self._dying)

    def sweep(self, workers: frozenset[int]) -> None:
        """Kill every child that is neither one of `workers` nor the handler module's own.

        Theirs come to us when they are dead; so whoever hears of an end through the poll calls `reap` and sweeps again.
        """
        known = workers | self._spared | frozenset(self._dying.values())
        for pid in children(os.getpid()):
            if pid not in known:  # ours, and not waited for: the number means nobody else
                os.kill(pid, signal.SIGKILL)
                pidfd = os.pidfd_open(pid)
                self._dying[pidfd] = pid
                self._poll.register(pidfd, select.POLLIN)

    def reap(self, pidfd: int) -> None:
        """Wait for one of them, which was killed."""
        pid = self._dying.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        with contextlib.suppress(ChildProcessError):  # the module's own code may wait for any child
            os.waitpid(pid, 0)
