"""Tickets that a queue is filled with are such as the product would run."""

import json
from itertools import islice

from benchmarks.filling import tickets
from gateway.contract.envelope import Envelope, decode


def test_a_ticket_says_of_itself_what_its_message_says() -> None:
    for wire in islice(tickets("t", 4, kinds=("kind-0", "longer-kind-1")), 4):
        envelope = decode(wire)
        assert isinstance(envelope, Envelope)
        assert json.loads(envelope.body)["kind"] == envelope.kind == wire.type
        assert envelope.admission is not None
        assert envelope.admission.bytes == len(envelope.body)
