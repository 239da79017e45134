"""The wire types of Kafka's record schemas: integers, uuid, string, bytes and array.

Each type is a class with its reader, its writer and its JSON. All integers are big-endian. A uuid has 16 bytes. The
lengths and counts of the other types are in wire_base.py.

Kafka refuses a count that is larger than the number of bytes after it.
Source: the code that Kafka 4.3.1's MessageDataGenerator writes, ByteBufferAccessor.
"""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any

from kafkagroups.errors import InvalidRecord, UsageError, join_path
from kafkagroups.records.refusals import TOO_MANY_ELEMENTS
from kafkagroups.records.text import encode_utf8, uuid_bytes, uuid_text
from kafkagroups.records.varint import write_uvarint
from kafkagroups.records.wire_base import (
    INT16_LENGTH,
    INT32_LENGTH,
    MessageFormat,
    Reader,
    Wire,
    Writer,
    length_reader,
    length_writer,
    refuse_length,
    refuse_null,
)

MAX_STRING = 0x7FFF
"""The largest number of bytes in a string: the largest int16."""
MAX_INT32 = 0x7FFFFFFF
MAX_ELEMENTS = 1_000_000
"""The largest number of elements in an array since Kafka 4.4."""


class Int(Wire):
    """A big-endian integer of 1, 2, 4 or 8 bytes. `code` is its format character in Python's module struct."""

    default = 0

    def __init__(self, name: str, code: str) -> None:
        self.name = name
        self.struct = struct.Struct(">" + code)
        bits = self.struct.size * 8
        self.minimum = 0 if code.isupper() else -(2 ** (bits - 1))
        self.maximum = self.minimum + 2**bits - 1

    def reader(self, form: MessageFormat, nullable: bool) -> Reader:
        unpack = self.struct.unpack_from
        size = self.struct.size
        return lambda buffer, position: (unpack(buffer, position)[0], position + size)

    def writer(self, form: MessageFormat, nullable: bool) -> Writer:
        pack = self.struct.pack

        def write(out: bytearray, value: Any) -> None:
            try:
                out += pack(value)
            except struct.error:
                raise self._refuse(value) from None

        return write

    def from_json(self, value: Any, form: MessageFormat) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not self.minimum <= value <= self.maximum:
            raise self._refuse(value)
        return value

    def _refuse(self, value: Any) -> UsageError:
        return UsageError(f"expected an {self.name} ({self.minimum} to {self.maximum}), found {value!r}")


class Uuid(Wire):
    """A uuid of 16 bytes. In Python it is a string, as Kafka prints it: 22 characters of base64url."""

    name = "uuid"
    default = "AAAAAAAAAAAAAAAAAAAAAA"

    def reader(self, form: MessageFormat, nullable: bool) -> Reader:
        def read(buffer: bytes, position: int) -> tuple[str, int]:
            end = position + 16
            if end > len(buffer):
                # Here Kafka's exception has no message, so the error has no cause.
                raise refuse_length("a uuid", 16, len(buffer) - position, position).with_cause()
            return uuid_text(buffer[position:end]), end

        return read

    def writer(self, form: MessageFormat, nullable: bool) -> Writer:
        def write(out: bytearray, value: Any) -> None:
            out += uuid_bytes(self.from_json(value, form))

        return write

    def from_json(self, value: Any, form: MessageFormat) -> str:
        try:
            return uuid_text(uuid_bytes(value))
        except (ValueError, AttributeError):
            raise UsageError(f"expected a uuid (22 characters of base64url), found {value!r}") from None


class String(Wire):
    """A string: UTF-8 as Java writes it (text.py), at most 32767 bytes."""

    name = "string"
    default = ""

    def reader(self, form: MessageFormat, nullable: bool) -> Reader:
        unpack = INT16_LENGTH.unpack_from
        read_compact = length_reader(form, INT16_LENGTH) if form.flexible else None

        def read(buffer: bytes, position: int) -> tuple[str | None, int]:
            if read_compact is None:
                length = unpack(buffer, position)[0]
                start = position + 2
            else:
                length, start = read_compact(buffer, position)
            if length < 0:
                if nullable:
                    return None, start
                raise refuse_null(position)
            end = start + length
            if end > len(buffer) or length > MAX_STRING:
                error = refuse_length("a string", length, len(buffer) - start, position)
                raise error.with_cause("length", length) if length > MAX_STRING else error
            return buffer[start:end].decode("utf-8", "kafkagroups.java"), end

        return read

    def writer(self, form: MessageFormat, nullable: bool) -> Writer:
        write_length = length_writer(form, INT16_LENGTH)
        pack = INT16_LENGTH.pack
        compact = form.flexible

        def write(out: bytearray, value: Any) -> None:
            if value is None and nullable:
                return write_length(out, -1)
            if not isinstance(value, str):
                raise UsageError(f"expected a string, found {value!r}")
            try:
                data = value.encode()
            except UnicodeEncodeError:
                data = encode_utf8(value)
            if len(data) > MAX_STRING:
                raise UsageError(f"expected a string of at most {MAX_STRING} bytes, found {len(data)} bytes")
            if compact:
                write_uvarint(out, len(data) + 1)
            else:
                out += pack(len(data))
            out += data
            return None

        return write

    def from_json(self, value: Any, form: MessageFormat) -> str:
        if not isinstance(value, str):
            raise UsageError(f"expected a string, found {value!r}")
        return value


class Bytes(Wire):
    """A field of type bytes. In JSON its value is base64."""

    name = "bytes"
    default = b""

    def reader(self, form: MessageFormat, nullable: bool) -> Reader:
        read_length = length_reader(form, INT32_LENGTH)

        def read(buffer: bytes, position: int) -> tuple[bytes | None, int]:
            length, start = read_length(buffer, position)
            if length < 0:
                if nullable:
                    return None, start
                raise refuse_null(position)
            end = start + length
            if end > len(buffer):
                raise refuse_length("bytes", length, len(buffer) - start, position)
            return buffer[start:end], end

        return read

    def writer(self, form: MessageFormat, nullable: bool) -> Writer:
        write_length = length_writer(form, INT32_LENGTH)

        def write(out: bytearray, value: Any) -> None:
            if value is None and nullable:
                return write_length(out, -1)
            if not isinstance(value, bytes):
                raise UsageError(f"expected bytes, found {value!r}")
            write_length(out, len(value))
            out += value
            return None

        return write

    def to_json(self, value: Any, form: MessageFormat) -> str:
        return base64.b64encode(value).decode()

    def from_json(self, value: Any, form: MessageFormat) -> bytes:
        try:
            return base64.b64decode(value, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise UsageError(f"expected base64, found {value!r}") from None


class Array(Wire):
    """An array: a count, then the elements. In Python it is a tuple. `of` is the wire type of the elements."""

    default = ()

    def __init__(self, of: Wire) -> None:
        self.of = of
        self.name = f"array of {of.name}"

    def reader(self, form: MessageFormat, nullable: bool) -> Reader:
        read_count = length_reader(form, INT32_LENGTH)
        read_element = self.of.reader(form, False)
        max_count = MAX_ELEMENTS if TOO_MANY_ELEMENTS.holds(form.kafka) else MAX_INT32

        def read(buffer: bytes, position: int) -> tuple[tuple[Any, ...] | None, int]:
            count, start = read_count(buffer, position)
            if count < 0:
                if nullable:
                    return None, start
                raise refuse_null(position)
            bytes_left = len(buffer) - start
            if count > bytes_left:
                raise refuse_length("an array", count, bytes_left, position).with_cause("count", count, bytes_left)
            if count > max_count:
                reason = f"expected an array of at most {max_count} elements, found {count}"
                raise InvalidRecord(reason, position=position).with_cause("elements", count)
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

    def writer(self, form: MessageFormat, nullable: bool) -> Writer:
        write_count = length_writer(form, INT32_LENGTH)
        write_element = self.of.writer(form, False)

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

    def to_json(self, value: Any, form: MessageFormat) -> list[Any]:
        return [self.of.to_json(element, form) for element in value]

    def from_json(self, value: Any, form: MessageFormat) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise UsageError(f"expected an {self.name}, found {value!r}")
        elements = []
        for index, element in enumerate(value):
            try:
                elements.append(self.of.from_json(element, form))
            except UsageError as error:
                raise error.prefix_field(f"[{index}]") from None
        return tuple(elements)


def read_length(wire: Wire, form: MessageFormat, buffer: bytes, position: int) -> tuple[int, int]:
    """Return the length of a string or bytes, or the count of an array, and the position after this number.

    A negative number means null. `wire` is the field's type, `form` is the format of the message.
    """
    return length_reader(form, _classic_length(wire))(buffer, position)


def length_bytes(wire: Wire, form: MessageFormat, length: int) -> bytes:
    """Return the bytes of a length or count, in the only form that Kafka writes. A negative number becomes null."""
    out = bytearray()
    length_writer(form, _classic_length(wire))(out, max(length, -1))
    return bytes(out)


def _classic_length(wire: Wire) -> struct.Struct:
    return INT16_LENGTH if isinstance(wire, String) else INT32_LENGTH


INT8 = Int("int8", "b")
INT16 = Int("int16", "h")
UINT16 = Int("uint16", "H")
INT32 = Int("int32", "i")
INT64 = Int("int64", "q")
UUID = Uuid()
STRING = String()
BYTES = Bytes()
