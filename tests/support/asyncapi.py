"""A message held against the AsyncAPI document, as a reader of the document would."""

import json
from dataclasses import asdict
from typing import Any

import jsonschema_rs

from gateway.contract.wire import Wire


class Described:
    """The messages of one document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._messages = document["components"]["messages"]
        self._channels = {channel["address"]: list(channel["messages"]) for channel in _by_address(document)}
        self._valid = {
            (name, part): jsonschema_rs.validator_for(message[part], validate_formats=True)
            for name, message in self._messages.items()
            for part in ("headers", "payload", "x-amqp-properties")
        }

    def check(self, name: str, wire: Wire) -> None:
        """Raise jsonschema_rs.ValidationError when a message is not one of this name."""
        fields = {"headers", "body"}
        properties = {key: value for key, value in asdict(wire).items() if key not in fields and value is not None}
        self._valid[name, "headers"].validate(dict(wire.headers))
        self._valid[name, "x-amqp-properties"].validate(properties)
        if self._messages[name].get("contentType") == "application/json":
            self._valid[name, "payload"].validate(json.loads(wire.body))

    def kind_of(self, address: str, wire: Wire) -> str:
        """Return which of the messages of a queue or an exchange this is; raises AssertionError when it is none."""
        refused = {}
        names: list[str] = self._channels[address]
        for name in names:
            try:
                self.check(name, wire)
            except (jsonschema_rs.ValidationError, ValueError) as error:
                refused[name] = str(error)
            else:
                return name
        raise AssertionError(f"{address} holds what is not described: {wire}: {refused}")


def _by_address(document: dict[str, Any]) -> list[dict[str, Any]]:
    return list(document["channels"].values())
