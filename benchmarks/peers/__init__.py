"""The same work done by others, each a small honest program at its sensible best."""
