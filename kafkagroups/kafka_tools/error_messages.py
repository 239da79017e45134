"""The messages of the exceptions of Kafka 4.3.1 and 4.4.0 for a record that they cannot read.

Kafka's reader of a field throws an exception that describes the problem. A second exception contains the message of
the first exception, the part of the record (key or value) and the part's version. If the bytes end too early, the first
exception is a BufferUnderflowException, whose message is null.
Source: captured messages of GroupCoordinatorRecordSerde (errors.jsonl of 4.3.1, limits.jsonl of 4.4.0, in tests);
ByteBufferAccessor.java (4.3.1); ByteUtils.java (4.3.1).
"""

from __future__ import annotations

import re

from kafkagroups.errors import InvalidRecord

# InvalidRecord.cause (errors.py) is a tuple: the kind of problem, then numbers. This dict has the message of the first
# exception by the kind. {0} is the first number, {1} is the second. {field} is the name of the field.
_MESSAGE_BY_KIND = {
    "null": "non-nullable field {field} was serialized as null",
    "length": "string field {field} had invalid length {0}",
    "bytes": "Error reading byte array of {0} byte(s): only {1} byte(s) available",
    "count": "Tried to allocate a collection of size {0}, but there are only {1} bytes remaining.",
    # The next four messages are Kafka 4.4.0's. Older releases have no such limits.
    "elements": "Tried to read a collection of size {0}, which exceeds the maximum allowed size of {1}.",
    "tags": "Tried to read {0} tagged fields, but there are only {1} bytes remaining.",
    "too many tags": "Tried to read {0} tagged fields, which exceeds the maximum allowed count of {1}.",
    "negative tags": "Invalid negative number of tagged fields {0}",
    "varint": "Varint is too long, the most significant bit in the 5th byte is set, converted value: {0:x}",
    "negative": "{0}",  # The size of an unknown tag is negative. Java's message is only this size.
}


def format_kafka_error(error: InvalidRecord, key: bytes, value: bytes | None) -> str:
    """Return the message of Kafka's exception for a record that `decode` (serde.py) refused with the error `error`.

    `key` and `value` are the bytes of the record.
    """
    path = (error.field or "key").split(".")
    part = path[0]
    field = path[-1]
    kind = str(error.cause[0]) if error.cause else ""
    numbers = error.cause[1:]
    if kind == "no version":
        return f"Could not read version from {part}'s buffer."
    if kind == "version":
        return "Found an unknown record version {} for {} type".format(*numbers)
    field = re.sub(r"\[[0-9]+\]$", " element", field)  # Kafka's name of an array's element: "members element".
    reason = _MESSAGE_BY_KIND[kind].format(*numbers, field=field) if kind else "null"
    part_bytes = value if part == "value" and value else key
    version = int.from_bytes(part_bytes[:2], "big", signed=True)
    return f"Could not read record with version {version} from {part}'s buffer due to: {reason}."
