"""One record of the topic: bytes, structs and JSON."""
