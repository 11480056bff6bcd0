"""A private RabbitMQ node for one machine: `python -m gateway.embedded`.

Owns the node's folder, ports, processes and their deaths. Never touches a broker that the system or somebody else
runs, never listens beyond loopback, and never outlives the program that started it.
"""

from gateway.embedded.broker import BrokerNotStartedError, EmbeddedBroker
from gateway.embedded.node import Node, NodeSettingsError
from gateway.embedded.ports import free_port

__all__ = ["BrokerNotStartedError", "EmbeddedBroker", "Node", "NodeSettingsError", "free_port"]
