"""The quarantine station: moves what is exhausted into a durable store, alerts, and lets a person decide.

Owns every row it writes until a person has decided about it. Never starts a handler and never drops an item by
age or count.
"""
