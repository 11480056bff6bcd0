"""The edge to the broker that all programs share: connections, channels, frames, and messages as they travel.

Owns all that leans on the client library's inside. Knows nothing of tickets: of ours it imports the contract alone.
"""
