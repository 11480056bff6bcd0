"""A handler whose worker takes longer to tidy up at its end than a pipe may be silent."""

import atexit
import os
import time

os.register_at_fork(after_in_child=lambda: atexit.register(time.sleep, 1.4))


def handle(run: object) -> None:
    pass
