"""The consumer: a fleet node that runs a handler on each ticket and survives the tickets that kill it."""

__version__ = "0.1.0"
