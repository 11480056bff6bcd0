"""Dramatiq with an actor that does nothing and the middleware it comes with.

Its queues are classic: it has no setting for others. It acknowledges after the actor, as it always does.
"""

import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

broker = RabbitmqBroker(url=os.environ["PEER_BROKER"], confirm_delivery=True)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name=os.environ["PEER_QUEUE"])
def nothing(body: str) -> None:
    """Do nothing with `body`."""


def fill(bodies: list[str]) -> None:
    """Send one message for each body, each confirmed."""
    for body in bodies:
        nothing.send(body)
    broker.close()
