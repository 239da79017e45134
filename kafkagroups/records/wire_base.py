"""The base class of all wire types, and the lengths and counts in front of their content.

A wire type is the type of a field in the bytes. A length comes before the bytes of a string, a count comes before the
elements of an array. Some versions of a message are flexible: they have compact lengths and tagged fields (fields.py).

    type     classic versions                    flexible versions (compact)
    string   int16 length, -1 = null             uvarint length + 1, 0 = null
    bytes    int32 length, -1 = null             uvarint length + 1, 0 = null
    array    int32 count,  -1 = null             uvarint count + 1,  0 = null

Kafka treats every negative length as null, and refuses null if the field cannot be null. It reads a uvarint as a signed
32-bit integer and drops the higher bits.
Source: the code that Kafka 4.3.1's MessageDataGenerator writes, ByteBufferAccessor, ByteUtils.readUnsignedVarint.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafkagroups.errors import InvalidRecord
from kafkagroups.records.varint import read_uvarint, signed32, write_uvarint

Reader = Callable[[bytes, int], tuple[Any, int]]
"""A function (buffer, position) -> (value, position after the value).

If the data ends too early, the function raises InvalidRecord, struct.error or IndexError."""
Writer = Callable[[bytearray, Any], None]
"""A function (buffer, value) that appends the bytes of the value to the buffer."""

INT16_LENGTH = struct.Struct(">h")
INT32_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """The format of a message: its version, whether the version is flexible, and the Kafka version of the reader.

    Since a new tag does not change a message's version, the Kafka version decides which tagged fields exist.
    `newest_version` is the newest version of the message that this Kafka version has.
    """

    version: int
    flexible: bool
    kafka: tuple[int, ...]
    newest_version: int = 2**15 - 1


class Wire(ABC):
    """A wire type. `name` is its name in messages, `default` is the default of a field.

    `reader` and `writer` are called once for each format. The functions that they return are called for each record. In
    all methods, `form` is the format of the message, and `nullable` tells whether the field can be null.
    """

    name: str
    default: Any

    @abstractmethod
    def reader(self, form: MessageFormat, nullable: bool) -> Reader:
        """Return the function that reads a value."""

    @abstractmethod
    def writer(self, form: MessageFormat, nullable: bool) -> Writer:
        """Return the function that writes a value. It raises UsageError if the type cannot hold the value."""

    def to_json(self, value: Any, form: MessageFormat) -> Any:
        """Return the JSON of a value, as Kafka writes it. The value is not null."""
        return value

    @abstractmethod
    def from_json(self, value: Any, form: MessageFormat) -> Any:
        """Return the Python value of a JSON value. Raises UsageError if the JSON value has a wrong type."""


def length_reader(form: MessageFormat, classic: struct.Struct) -> Callable[[bytes, int], tuple[int, int]]:
    """Return the function that reads a length or count. A negative result means null.

    `classic` is the format of the number in a version that is not flexible: int16 or int32.
    """
    if form.flexible:

        def read_compact(buffer: bytes, position: int) -> tuple[int, int]:
            length, position = read_uvarint(buffer, position)
            return signed32(length - 1), position

        return read_compact
    unpack = classic.unpack_from
    size = classic.size
    return lambda buffer, position: (unpack(buffer, position)[0], position + size)


def length_writer(form: MessageFormat, classic: struct.Struct) -> Callable[[bytearray, int], None]:
    """Return the function that writes a length or count. -1 means null. `classic` is as in `length_reader`."""
    if form.flexible:
        return lambda out, length: write_uvarint(out, length + 1)
    pack = classic.pack
    return lambda out, length: out.extend(pack(length))


def refuse_null(position: int) -> InvalidRecord:
    """Return the error for a null in a field that cannot be null."""
    error = InvalidRecord("expected a value that is not null, found a negative length", position=position)
    return error.with_cause("null")


def refuse_length(type_name: str, length: int, bytes_left: int, position: int) -> InvalidRecord:
    """Return the error for a length that is larger than the number of bytes after it (`bytes_left`)."""
    error = InvalidRecord(f"expected {type_name} of length {length}, found {bytes_left} more bytes", position=position)
    return error.with_cause("bytes", length, bytes_left)
