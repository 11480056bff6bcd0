"""Celery's prefork pool with one task. No result backend, no events; defaults but for what stands here.

`PEER_ACKS=late` acknowledges after the task and gives back what a lost worker held; `PEER_QUEUE_TYPE=quorum` says so of
the queue. Both are what Celery offers to whoever must not lose a task.
"""

import os
from typing import Final

from celery import Celery

from benchmarks.peers import acting

_LATE: Final = os.environ.get("PEER_ACKS") == "late"
_SLOTS_TO_PREFETCH: Final = 16
"""With two processes the 32 unacknowledged items that every other consumer here may have; Celery's own default is 4."""

app = Celery("peer", broker=os.environ["PEER_BROKER"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_transport_options={"confirm_publish": True},
    task_acks_late=_LATE,
    task_default_queue=os.environ["PEER_QUEUE"],
    task_default_queue_type=os.environ.get("PEER_QUEUE_TYPE", "classic"),
    task_ignore_result=True,
    task_reject_on_worker_lost=_LATE,
    worker_prefetch_multiplier=_SLOTS_TO_PREFETCH,
)
item = app.task(name="item")(acting.item)


def fill(bodies: list[str]) -> None:
    """Send one task for each body, each confirmed."""
    for body in bodies:
        item.delay(body)
