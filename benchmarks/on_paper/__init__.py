"""A fleet of a thousand nodes that nobody has here: the product's own pure rules, driven by a clock and a seed.

Nothing is imitated but what the rules are told: when runs begin and end. Starts no program and no broker.
"""
