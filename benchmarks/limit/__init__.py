"""What the broker itself can do: a publisher and a consumer in C, the least that a client can be."""
