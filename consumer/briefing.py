"""What of an order the worker is told: all that the handler and the preflight need, nothing of how it is counted."""

from consumer.execution import RunOrder
from consumer.pipe import Order


def briefing(order: RunOrder) -> Order:
    """Return the record that sends `order` to its worker."""
    return Order(
        run=order.run,
        ticket=order.ticket,
        kind=order.kind,
        generation=order.generation,
        attempt=order.attempt,
        content_type=order.content_type,
        content_encoding=order.content_encoding,
        charset=order.charset,
        examine=order.examine,
        memory_limit=order.memory_limit,
        body=order.body,
    )
