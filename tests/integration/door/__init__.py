"""The door through its public face: HTTP in front, a real broker behind."""
