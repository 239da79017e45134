"""One record of the topic: bytes, dataclasses and JSON."""
