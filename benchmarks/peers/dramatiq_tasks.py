"""Dramatiq with one actor and the middleware it comes with.

Its queues are classic: it has no setting for others. It acknowledges after the actor, as it always does.
"""

import os

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

from benchmarks.peers import acting

broker = RabbitmqBroker(url=os.environ["PEER_BROKER"], confirm_delivery=True)
dramatiq.set_broker(broker)
item = dramatiq.actor(acting.item, actor_name="item", queue_name=os.environ["PEER_QUEUE"])


def fill(bodies: list[str]) -> None:
    """Send one message for each body, each confirmed."""
    for body in bodies:
        item.send(body)
    broker.close()
