"""What several tests lean on: real programs, a real broker, a line that can be cut, and waiting for conditions."""
