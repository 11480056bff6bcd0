"""How values are declared of which every item makes a dozen.

`value` is `dataclass`, and to a type checker nothing else: what is `frozen` stays so. Only at run time nobody stands
guard over each field of each new value, which would take most of the time that making one takes.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as value
else:

    def value(*, frozen: bool, **options: Any) -> Any:
        """Return the decorator; a frozen value can be hashed."""
        return dataclass(unsafe_hash=frozen, **options)


__all__ = ["value"]
