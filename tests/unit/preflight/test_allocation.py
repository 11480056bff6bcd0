"""What the door's allocator keeps at hand, in a process of its own: the choice holds for all of a process's life."""

import subprocess
import sys
from typing import Final

from gateway.preflight.offload import INLINE_BYTES

_READINGS: Final = 100

_READ_AGAIN_AND_AGAIN: Final = f"""
import resource
from gateway.preflight.allocation import give_back_what_is_large
from gateway.preflight.json_body import Document, read_json

give_back_what_is_large()
body = b'{{"kind":"a","body":"%b"}}' % (b"x" * {INLINE_BYTES - 30})
for _ in range(10):
    assert isinstance(read_json(body), Document)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({_READINGS}):
    read_json(body)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_reading_the_largest_body_that_is_examined_in_the_door_takes_no_memory_anew_from_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", _READ_AGAIN_AND_AGAIN], capture_output=True, text=True, check=True)
    assert int(done.stdout) < _READINGS, "pages were asked for at each reading"
