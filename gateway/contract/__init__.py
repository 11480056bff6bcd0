"""What gateway and consumer share: records, enums, names and codecs of the protocol.

Owns the bytes on the wire. Imports the standard library and orjson only, does no I/O, and has no
behaviour that one side could want to change without the other.
"""
