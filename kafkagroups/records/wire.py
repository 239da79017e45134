"""The wire types of Kafka's record schemas: integers, uuid, string, bytes and array.

A wire type says how the bytes of a field are read and written. A length comes before the bytes of a string, and a
count before the elements of an array. Some versions of a message are flexible: they have compact lengths, and tagged
fields (fields.py).

    type     versions that are not flexible      flexible versions (compact)
    string   int16 length, -1 = null             uvarint length + 1, 0 = null
    bytes    int32 length, -1 = null             uvarint length + 1, 0 = null
    array    int32 count,  -1 = null             uvarint count + 1,  0 = null
    uuid     16 bytes
    integer  1, 2, 4 or 8 bytes, big-endian

Kafka treats every negative length as null, and refuses null if the field cannot be null. It also refuses an array whose
count is larger than the number of bytes after the count.

A uvarint is an unsigned integer of variable length: seven bits per byte, the low bits first; the high bit of a byte is
1 if another byte follows.
Source (4.3.1): the code that MessageDataGenerator writes; ByteBufferAccessor; ByteUtils.readUnsignedVarint.
"""

from __future__ import annotations

import base64
import binascii
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafkagroups.errors import InvalidRecord, UsageError, join_path
from kafkagroups.helpers import MAX_INT32
from kafkagroups.records.refusals import TOO_MANY_ELEMENTS
from kafkagroups.records.text import JAVA_ERROR_HANDLER, encode_utf8, uuid_bytes, uuid_text

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


def read_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned varint at a position of the buffer, and the position after the varint.

    A number above 2^31 - 1 becomes negative, as in Java. Raises InvalidRecord if the varint is longer than 5 bytes, and
    IndexError if the buffer ends inside the varint.
    """
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return signed32(value), position + 1
    error = InvalidRecord("expected a varint of at most 5 bytes, found a longer one", position=position)
    raise error.with_cause("varint", value & 0xFFFFFFFF)


def write_uvarint(out: bytearray, value: int) -> None:
    """Append a number to `out` as an unsigned varint. The number must not be negative."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uvarint_bytes(value: int) -> bytes:
    """Return the low 32 bits of a number as an unsigned varint, in the shortest form, as Kafka does."""
    out = bytearray()
    write_uvarint(out, value & 0xFFFFFFFF)
    return bytes(out)


def signed32(value: int) -> int:
    """Return the low 32 bits of a number as a signed integer."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


MAX_STRING_BYTES = 0x7FFF
"""The largest number of bytes in a string: the largest int16."""
MAX_SHOWN_BITS = 256
"""An error message shows the digits of a number up to this size. Python refuses to print very large numbers."""
MAX_ELEMENTS = 1_000_000
"""The largest number of elements in an array since Kafka 4.4."""
UUID_BYTES = 16


class Int(Wire):
    """A big-endian integer of 1, 2, 4 or 8 bytes.

    `code` is the format character of the integer in Python's module struct. An upper-case character means an unsigned
    integer.
    """

    default = 0

    def __init__(self, name: str, code: str) -> None:
        self.name = name
        self.code = code
        self.struct = struct.Struct(">" + code)
        bits = self.struct.size * 8
        self.minimum = 0 if code.isupper() else -(2 ** (bits - 1))
        self.maximum = self.minimum + 2**bits - 1

    def reader(self, message_format: MessageFormat, nullable: bool) -> Reader:
        unpack = self.struct.unpack_from
        byte_count = self.struct.size
        return lambda buffer, position: (unpack(buffer, position)[0], position + byte_count)

    def writer(self, message_format: MessageFormat, nullable: bool) -> Writer:
        pack = self.struct.pack

        def write(out: bytearray, value: Any) -> None:
            try:
                out += pack(value)
            except struct.error:
                raise self._make_range_error(value) from None

        return write

    def from_json(self, value: Any, message_format: MessageFormat) -> int:
        return self.check(value)

    def check(self, value: Any) -> int:
        """Return the value unchanged. Raises UsageError if this type cannot hold the value."""
        if not isinstance(value, int) or isinstance(value, bool) or not self.minimum <= value <= self.maximum:
            raise self._make_range_error(value)
        return value

    def _make_range_error(self, value: Any) -> UsageError:
        is_huge = isinstance(value, int) and value.bit_length() > MAX_SHOWN_BITS
        found = f"a number of {value.bit_length()} bits" if is_huge else repr(value)
        return UsageError(f"expected an {self.name} ({self.minimum} to {self.maximum}), found {found}")


class Uuid(Wire):
    """A uuid of 16 bytes. In Python, a uuid is a string of 22 characters, in base64url, as in Kafka's own output."""

    name = "uuid"
    default = "AAAAAAAAAAAAAAAAAAAAAA"

    def reader(self, message_format: MessageFormat, nullable: bool) -> Reader:
        def read(buffer: bytes, position: int) -> tuple[str, int]:
            end = position + UUID_BYTES
            if end > len(buffer):
                # Kafka's exception has no message, so this error gets no cause (InvalidRecord.cause).
                reason = f"expected a uuid of length {UUID_BYTES}, found {len(buffer) - position} more bytes"
                raise InvalidRecord(reason, position=position)
            return uuid_text(buffer[position:end]), end

        return read

    def writer(self, message_format: MessageFormat, nullable: bool) -> Writer:
        def write(out: bytearray, value: Any) -> None:
            out += uuid_bytes(self.from_json(value, message_format))

        return write

    def from_json(self, value: Any, message_format: MessageFormat) -> str:
        try:
            return uuid_text(uuid_bytes(value))
        except (ValueError, AttributeError):
            raise UsageError(f"expected a uuid (22 characters of base64url), found {value!r}") from None


class String(Wire):
    """A string of at most 32767 bytes, in UTF-8 with Java's rules for malformed text (text.py)."""

    name = "string"
    default = ""

    def reader(self, message_format: MessageFormat, nullable: bool) -> Reader:
        unpack = INT16_LENGTH.unpack_from
        read_compact = length_reader(message_format, INT16_LENGTH) if message_format.flexible else None

        def read(buffer: bytes, position: int) -> tuple[str | None, int]:
            if read_compact is None:
                length = unpack(buffer, position)[0]
                start = position + 2
            else:
                length, start = read_compact(buffer, position)
            if length < 0:
                if nullable:
                    return None, start
                raise make_null_error(position)
            end = start + length
            if length > MAX_STRING_BYTES:
                error = make_length_error("a string", length, len(buffer) - start, position)
                raise error.with_cause("length", length)
            if end > len(buffer):
                raise make_length_error("a string", length, len(buffer) - start, position)
            return buffer[start:end].decode("utf-8", JAVA_ERROR_HANDLER), end

        return read

    def writer(self, message_format: MessageFormat, nullable: bool) -> Writer:
        write_length = length_writer(message_format, INT16_LENGTH)
        pack = INT16_LENGTH.pack
        is_compact = message_format.flexible

        def write(out: bytearray, value: Any) -> None:
            if value is None and nullable:
                return write_length(out, -1)
            if not isinstance(value, str):
                raise UsageError(f"expected a string, found {value!r}")
            data = encode_utf8(value)
            if len(data) > MAX_STRING_BYTES:
                raise UsageError(f"expected a string of at most {MAX_STRING_BYTES} bytes, found {len(data)} bytes")
            if is_compact:
                write_uvarint(out, len(data) + 1)
            else:
                out += pack(len(data))
            out += data
            return None

        return write

    def from_json(self, value: Any, message_format: MessageFormat) -> str:
        if not isinstance(value, str):
            raise UsageError(f"expected a string, found {value!r}")
        return value


class Bytes(Wire):
    """A value of type bytes: any sequence of bytes. In JSON, the value is base64."""

    name = "bytes"
    default = b""

    def reader(self, message_format: MessageFormat, nullable: bool) -> Reader:
        read_length = length_reader(message_format, INT32_LENGTH)

        def read(buffer: bytes, position: int) -> tuple[bytes | None, int]:
            length, start = read_length(buffer, position)
            if length < 0:
                if nullable:
                    return None, start
                raise make_null_error(position)
            end = start + length
            if end > len(buffer):
                raise make_length_error("bytes", length, len(buffer) - start, position)
            return buffer[start:end], end

        return read

    def writer(self, message_format: MessageFormat, nullable: bool) -> Writer:
        write_length = length_writer(message_format, INT32_LENGTH)

        def write(out: bytearray, value: Any) -> None:
            if value is None and nullable:
                return write_length(out, -1)
            if not isinstance(value, bytes):
                raise UsageError(f"expected bytes, found {value!r}")
            write_length(out, len(value))
            out += value
            return None

        return write

    def to_json(self, value: Any, message_format: MessageFormat) -> str:
        return base64.b64encode(value).decode()

    def from_json(self, value: Any, message_format: MessageFormat) -> bytes:
        try:
            return base64.b64decode(value, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise UsageError(f"expected base64, found {value!r}") from None


class Array(Wire):
    """An array: a count, then the elements. In Python, an array is a tuple."""

    default = ()

    def __init__(self, element_type: Wire) -> None:
        self.element_type = element_type
        self.name = f"array of {element_type.name}"

    def reader(self, message_format: MessageFormat, nullable: bool) -> Reader:
        read_count = length_reader(message_format, INT32_LENGTH)
        read_element = self.element_type.reader(message_format, nullable=False)
        max_count = MAX_ELEMENTS if TOO_MANY_ELEMENTS.applies_to(message_format.kafka) else MAX_INT32

        def read(buffer: bytes, position: int) -> tuple[tuple[Any, ...] | None, int]:
            count, start = read_count(buffer, position)
            if count < 0:
                if nullable:
                    return None, start
                raise make_null_error(position)
            bytes_left = len(buffer) - start
            if count > bytes_left:
                raise make_length_error("an array", count, bytes_left, position).with_cause("count", count, bytes_left)
            if count > max_count:
                reason = f"expected an array of at most {max_count} elements, found {count}"
                raise InvalidRecord(reason, position=position).with_cause("elements", count, max_count)
            elements = []
            position = start
            try:
                for _ in range(count):
                    element, position = read_element(buffer, position)
                    elements.append(element)
            except InvalidRecord as error:
                error.field = join_path(f"[{len(elements)}]", error.field)
                raise
            return tuple(elements), position

        return read

    def writer(self, message_format: MessageFormat, nullable: bool) -> Writer:
        write_count = length_writer(message_format, INT32_LENGTH)
        write_element = self.element_type.writer(message_format, nullable=False)

        def write(out: bytearray, value: Any) -> None:
            if value is None and nullable:
                return write_count(out, -1)
            if not isinstance(value, tuple | list):
                raise UsageError(f"expected an {self.name}, found {value!r}")
            write_count(out, len(value))
            for index, element in enumerate(value):
                try:
                    write_element(out, element)
                except UsageError as error:
                    raise error.prefix_field(f"[{index}]") from None
            return None

        return write

    def to_json(self, value: Any, message_format: MessageFormat) -> list[Any]:
        return [self.element_type.to_json(element, message_format) for element in value]

    def from_json(self, value: Any, message_format: MessageFormat) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise UsageError(f"expected an {self.name}, found {value!r}")
        elements = []
        for index, element in enumerate(value):
            try:
                elements.append(self.element_type.from_json(element, message_format))
            except UsageError as error:
                raise error.prefix_field(f"[{index}]") from None
        return tuple(elements)


def read_length(wire: Wire, message_format: MessageFormat, buffer: bytes, position: int) -> tuple[int, int]:
    """Return the length (for an array, the count) at a position of the buffer, and the position after the length.

    A negative length means null. `wire` is the type of the field: string, bytes or array.
    """
    return length_reader(message_format, _int_format(wire))(buffer, position)


def encode_length(wire: Wire, message_format: MessageFormat, length: int) -> bytes:
    """Return the bytes of a length or count, as Kafka writes them. A negative length is written as null."""
    out = bytearray()
    length_writer(message_format, _int_format(wire))(out, max(length, -1))
    return bytes(out)


def _int_format(wire: Wire) -> struct.Struct:
    """Return the format of the type's length in a message version that is not flexible."""
    return INT16_LENGTH if isinstance(wire, String) else INT32_LENGTH


INT8 = Int("int8", "b")
INT16 = Int("int16", "h")
UINT16 = Int("uint16", "H")
INT32 = Int("int32", "i")
INT64 = Int("int64", "q")
UUID = Uuid()
STRING = String()
BYTES = Bytes()
