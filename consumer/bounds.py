"""How large what a worker or a mold says may be: no larger, deeper or longer than the store and the headers hold.

Pure. What does not keep to this is garbled, see `consumer.pipe`; a worker that a ticket has taken over can lie, and
that is all.
"""

from typing import Annotated, Final

from msgspec import Meta

MAX_NUMBER: Final = 2**53
"""Up to here every codec and every store agrees. None is negative."""
MAX_CHARACTERS: Final = 8192
MAX_ITEMS: Final = 64

Count = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Amount = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]
Text = Annotated[str, Meta(max_length=MAX_CHARACTERS)]
Facts = Annotated[dict[Text, Text | Count | Amount | bool], Meta(max_length=MAX_ITEMS)]
"""Plain values by name; nothing that holds anything else."""
Listed = Annotated[list[Facts], Meta(max_length=MAX_ITEMS)]
