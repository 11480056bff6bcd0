"""The gateway: a door that takes tickets in, and the quarantine station that keeps those which kill their workers."""

__version__ = "0.1.0"
