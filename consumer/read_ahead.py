"""How far a node may read ahead of its slots, by how long its runs take (P5). Pure.

Prefetch equals slots, so that an unacknowledged delivery is a running one. Only where runs are so short that a slot
would idle for the broker's round trip between two of them may others be here already: as many again, or as many more
as share what each of them needs alone, a transaction and a confirm, and are still begun as soon as one of them would be
behind one run that just counts as short.
"""

from dataclasses import dataclass
from typing import Final

SHORT_SECONDS: Final = 0.02
"""Runs are short while their mean is under this; and what is read ahead of a slot is begun within about as much."""
ENOUGH: Final = 16
"""Until so many have ended, nobody knows."""
MOST: Final = 32
"""Deliveries ahead of all slots, if there are not more of those: beyond this, sharing gains little."""
MOST_BYTES: Final = 16 << 20
"""Of what is read ahead beyond as many again."""
_REMEMBERED: Final = 64
"""Runs that the means look back over; older ones fade."""
_MUCH: Final = 4
"""So many times as deep is worth a change, which has a price, too."""


@dataclass(slots=True)
class ReadAhead:
    """What the newest runs of a node say about reading ahead.

    It begins at half of what may be, and is changed where that is worth much, so that runs of about one length do not
    have it begin and end all the time.
    """

    runs: int = 0
    mean: float = 0.0
    """Seconds of a run."""
    size: float = 0.0
    """Bytes of its ticket, in the mean."""
    pays: bool = False
    share: int = 0
    """Deliveries ahead of each slot, were there room for all of them."""

    def ran(self, seconds: float, size: int = 0) -> None:
        """Take in how long one run took, and how large its ticket was."""
        self.runs += 1
        newest = 1 / min(self.runs, _REMEMBERED)
        self.mean += (seconds - self.mean) * newest
        self.size += (size - self.size) * newest
        limit = SHORT_SECONDS if self.pays else SHORT_SECONDS / 2
        self.pays = self.runs >= ENOUGH and self.mean < limit
        fitting = int(min(SHORT_SECONDS / self.mean, MOST)) if self.mean > 0 else MOST
        if not self.pays:
            self.share = 0
        elif self.share == 0 or self.share > 2 * fitting or fitting >= _MUCH * self.share:
            self.share = fitting

    def stalled(self) -> None:
        """Forget what runs were like: something waits behind one that is long."""
        self.runs, self.mean, self.size, self.pays, self.share = 0, 0.0, 0.0, False, 0

    def allowance(self, slots: int, *, deep: bool = False) -> int:
        """Return how many deliveries may be here beyond those that fill the slots: none, as many again, or more.

        `deep` says that a death of the node would not be held against those of them that had not begun.
        """
        if not self.pays or not slots:
            return 0
        ahead = min(slots * self.share, max(slots, MOST))
        return ahead if deep and ahead * self.size <= MOST_BYTES else slots
