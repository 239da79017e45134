"""A second writer of records, made only from schemas.json, which Kafka's generated classes gave.

It shares no code with the package. Its input is Kafka's JSON.
"""

import base64
import json
import struct

from tests.captured import captured

SCHEMAS = json.loads((captured("records") / "schemas.json").read_text())
RECORDS = {record["id"]: record for record in SCHEMAS["records"]}
INTS = {"INT8": ">b", "INT16": ">h", "UINT16": ">H", "INT32": ">i", "INT64": ">q"}


def record_bytes(shown):
    """Return the key and value of a record's JSON."""
    schema = RECORDS[shown["type"]]
    key = struct.pack(">h", shown["type"]) + body(schema["key"]["versions"]["0"], shown["key"]["data"])
    if shown["value"] is None:
        return key, None
    version = shown["value"]["version"]
    return key, struct.pack(">h", int(version)) + body(schema["value"]["versions"][version], shown["value"]["data"])


def body(schema, content):
    out = b"".join(field(spec, content[spec["name"]]) for spec in schema["fields"])
    if not schema["flexible"]:
        return out
    tags = {tag["tag"]: base64.b64decode(tag["data"]) for tag in content.get("_unknownTaggedFields", [])}
    for spec in schema.get("tagged_fields", []):
        if spec["name"] in content:
            tags[spec["tag"]] = field(spec, content[spec["name"]])
    return (
        out
        + uvarint(len(tags))
        + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in sorted(tags.items()))
    )


def field(spec, content):
    wire = spec["wire"]
    if wire in INTS:
        return struct.pack(INTS[wire], content)
    if wire == "UUID":
        return base64.urlsafe_b64decode(content + "==")
    if "STRUCT" in wire:
        null = b"\x00" if "uvarint" in wire else b"\xff"
        if content is None:
            return null
        return (b"\x01" if wire.startswith("NULLABLE") else b"") + body(spec, content)
    if "element" in spec:
        inner = b"".join(field(spec["element"], element) for element in content or ())
        return length(wire, None if content is None else len(content)) + inner
    if content is None:
        return length(wire, None)
    data = content.encode() if "STRING" in wire else base64.b64decode(content)
    return length(wire, len(data)) + data


def length(wire, count):
    if wire.startswith("COMPACT"):
        return uvarint(0 if count is None else count + 1)
    return struct.pack(">h" if "STRING" in wire else ">i", -1 if count is None else count)


def uvarint(value):
    return bytes([value & 0x7F | 0x80]) + uvarint(value >> 7) if value > 0x7F else bytes([value])
