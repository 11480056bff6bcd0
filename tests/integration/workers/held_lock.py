"""A handler whose module breaks a rule: a thread in the mold holds a lock now and then, which a fork may copy held."""

import os
import threading
import time

from consumer.handler import Run

_lock = threading.Lock()


def _work_without_end() -> None:
    while True:
        with _lock:
            time.sleep(0.003)
        time.sleep(0.006)


def _need_the_lock() -> None:
    with _lock:
        pass


threading.Thread(target=_work_without_end, daemon=True).start()
os.register_at_fork(after_in_child=_need_the_lock)


def handle(run: Run) -> None:
    with _lock:
        pass
