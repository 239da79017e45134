"""The base class of all wire types, and the lengths and counts in front of their content.

A wire type says how the bytes of a field are read and written. A length comes before the bytes of a string, and a
count comes before the elements of an array. A message is the key or the value of a record, or a struct inside them.
Some versions of a message are flexible: these versions have compact lengths and tagged fields (fields.py).

    type     versions that are not flexible      flexible versions (compact)
    string   int16 length, -1 = null             uvarint length + 1, 0 = null
    bytes    int32 length, -1 = null             uvarint length + 1, 0 = null
    array    int32 count,  -1 = null             uvarint count + 1,  0 = null

Kafka treats every negative length as null, and refuses null if the field cannot be null. A uvarint is an unsigned
varint (varint.py).
Source (4.3.1): the code that MessageDataGenerator writes; ByteBufferAccessor; ByteUtils.readUnsignedVarint.
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
"""A function (buffer, position) -> (value, position after the value). A position is an index into the buffer.

If the data ends too early, the function raises InvalidRecord, struct.error or IndexError."""
Writer = Callable[[bytearray, Any], None]
"""A function (buffer, value) that appends the bytes of the value to the buffer."""

LARGEST_VERSION = 2**15 - 1
"""The largest possible version number of a message."""
INT16_LENGTH = struct.Struct(">h")
INT32_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """Everything that decides how a message is encoded.

    version           the version of the message
    flexible          whether this version is flexible
    kafka             the Kafka version that reads or writes the message; it decides which tagged fields exist
    newest_version    the newest version of the message that the Kafka version has
    """

    version: int
    flexible: bool
    kafka: tuple[int, ...]
    newest_version: int = LARGEST_VERSION


class Wire(ABC):
    """A wire type. `name` is its name in error messages. `default` is the default value of a field of this type.

    `reader` and `writer` are called once for each message format, and return functions. These functions are called for
    each record. In all methods, `message_format` is the format of the message that contains the field, and `nullable`
    says whether the field can be null.
    """

    name: str
    default: Any

    @abstractmethod
    def reader(self, message_format: MessageFormat, nullable: bool) -> Reader:
        """Return the function that reads a value."""

    @abstractmethod
    def writer(self, message_format: MessageFormat, nullable: bool) -> Writer:
        """Return the function that writes a value. That function raises UsageError if the value is not of this type."""

    def to_json(self, value: Any, message_format: MessageFormat) -> Any:
        """Return the JSON of a value, as Kafka writes it. The value must not be None."""
        return value

    @abstractmethod
    def from_json(self, value: Any, message_format: MessageFormat) -> Any:
        """Return the Python value of a JSON value. Raises UsageError if the JSON value has a wrong type."""


def length_reader(message_format: MessageFormat, int_format: struct.Struct) -> Callable[[bytes, int], tuple[int, int]]:
    """Return the function that reads a length or count. A negative length means null.

    `int_format` reads the length in a version that is not flexible: INT16_LENGTH or INT32_LENGTH.
    """
    if message_format.flexible:

        def read_compact(buffer: bytes, position: int) -> tuple[int, int]:
            length, position = read_uvarint(buffer, position)
            return signed32(length - 1), position

        return read_compact
    unpack = int_format.unpack_from
    byte_count = int_format.size
    return lambda buffer, position: (unpack(buffer, position)[0], position + byte_count)


def length_writer(message_format: MessageFormat, int_format: struct.Struct) -> Callable[[bytearray, int], None]:
    """Return the function that appends a length or count to a buffer. A length of -1 means null.

    `int_format` writes the length in a version that is not flexible: INT16_LENGTH or INT32_LENGTH.
    """
    if message_format.flexible:
        return lambda out, length: write_uvarint(out, length + 1)
    pack = int_format.pack
    return lambda out, length: out.extend(pack(length))


def make_null_error(position: int) -> InvalidRecord:
    """Return the error for a null in a field that cannot be null. `position` is the position of the length."""
    error = InvalidRecord("expected a value that is not null, found a negative length", position=position)
    return error.with_cause("null")


def make_length_error(type_name: str, length: int, bytes_left: int, position: int) -> InvalidRecord:
    """Return the error for a length that is larger than `bytes_left`, the number of bytes after the length.

    `position` is the position of the length.
    """
    error = InvalidRecord(f"expected {type_name} of length {length}, found {bytes_left} more bytes", position=position)
    return error.with_cause("bytes", length, bytes_left)
