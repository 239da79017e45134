"""What Kafka 4.3.1 itself says of a record that it cannot read: the message of the exception, not its class.

A reader's exception names what was wrong; the one around it names the part and its version. Bytes that just end are a
BufferUnderflowException, whose message is null.
Source: errors.jsonl (what 4.3.1's GroupCoordinatorRecordSerde said), ByteBufferAccessor.java, ByteUtils.java.
"""

from __future__ import annotations

import re

from kafkagroups.errors import InvalidRecord

_WORDS = {
    "null": "non-nullable field {field} was serialized as null",
    "length": "string field {field} had invalid length {0}",
    "bytes": "Error reading byte array of {0} byte(s): only {1} byte(s) available",
    "count": "Tried to allocate a collection of size {0}, but there are only {1} bytes remaining.",
    "varint": "Varint is too long, the most significant bit in the 5th byte is set, converted value: {0:x}",
    "negative": "{0}",
}


def kafka_words(error: InvalidRecord, key: bytes, value: bytes | None) -> str:
    """The message of 4.3.1's exception for a record that `decode` refused with this error."""
    path = (error.field or "key").split(".")
    part, field = path[0], path[-1]
    kind, numbers = (str(error.cause[0]), error.cause[1:]) if error.cause else ("", ())
    if kind == "no version":
        return f"Could not read version from {part}'s buffer."
    if kind == "version":
        return "Found an unknown record version {} for {} type".format(*numbers)
    field = re.sub(r"\[[0-9]+\]$", " element", field)
    why = _WORDS[kind].format(*numbers, field=field) if kind else "null"
    version = int.from_bytes((value if part == "value" and value else key)[:2], "big", signed=True)
    return f"Could not read record with version {version} from {part}'s buffer due to: {why}."
