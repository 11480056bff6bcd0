"""A handler whose module has the kernel wait for its children, an old way of having no zombies."""

import os
import signal

from consumer.handler import Run

signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def handle(run: Run) -> None:
    if run.ticket.text == "die":
        os.kill(os.getpid(), signal.SIGKILL)
