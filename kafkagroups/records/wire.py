"""The wire types of Kafka's record schemas: one class each, with its reader, its writer and its JSON.

All integers are big-endian. A length comes before its bytes, a count before its elements:

    type     classic versions                    flexible versions (compact)
    string   int16 length, -1 = null             uvarint length + 1, 0 = null
    bytes    int32 length, -1 = null             uvarint length + 1, 0 = null
    array    int32 count,  -1 = null             uvarint count + 1,  0 = null
    uuid     16 bytes                            the same

Kafka reads every negative length as null (and refuses null where the field may not be null), reads a uvarint as a
signed 32-bit integer, dropping what lies above, and refuses a count that is larger than the number of bytes left.
Source: the code that Kafka 4.3.1's MessageDataGenerator writes, ByteBufferAccessor, ByteUtils.readUnsignedVarint.
"""

from __future__ import annotations

import base64
import binascii
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafkagroups.errors import InvalidRecord, UsageError, nested
from kafkagroups.records.text import encode_utf8, uuid_bytes, uuid_text
from kafkagroups.records.varint import read_uvarint, signed32, write_uvarint

Reader = Callable[[bytes, int], tuple[Any, int]]
"""(buffer, position) -> (value, position after it). Raises InvalidRecord, struct.error or IndexError at the end."""
Writer = Callable[[bytearray, Any], None]

MAX_STRING = 0x7FFF
_UINT31 = 0x7FFFFFFF
_int16 = struct.Struct(">h")
_int32 = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class At:
    """What decides a layout: the message's version, whether that version is flexible, and whose reader it is."""

    version: int
    flexible: bool
    kafka: tuple[int, ...]


class Wire(ABC):
    """One wire type. `reader` and `writer` are made once for a layout and then run for each record."""

    name: str
    default: Any

    @abstractmethod
    def reader(self, at: At, nullable: bool) -> Reader: ...

    @abstractmethod
    def writer(self, at: At, nullable: bool) -> Writer: ...

    def to_json(self, value: Any, at: At) -> Any:
        return value

    @abstractmethod
    def from_json(self, value: Any, at: At) -> Any: ...


def _length_reader(at: At, classic: struct.Struct) -> Callable[[bytes, int], tuple[int, int]]:
    if at.flexible:

        def compact(buffer: bytes, position: int) -> tuple[int, int]:
            length, position = read_uvarint(buffer, position)
            return signed32(length - 1), position

        return compact
    unpack, size = classic.unpack_from, classic.size
    return lambda buffer, position: (unpack(buffer, position)[0], position + size)


def _length_writer(at: At, classic: struct.Struct) -> Callable[[bytearray, int], None]:
    """Writes a length or count; -1 for null."""
    if at.flexible:
        return lambda out, length: write_uvarint(out, length + 1)
    pack = classic.pack
    return lambda out, length: out.extend(pack(length))


def read_length(wire: Wire, at: At, buffer: bytes, position: int) -> tuple[int, int]:
    """The length of a string or of bytes, or an array's count, and the position after it; negative for null."""
    return _length_reader(at, _int16 if isinstance(wire, String) else _int32)(buffer, position)


def length_bytes(wire: Wire, at: At, length: int) -> bytes:
    """The one form in which Kafka writes such a length or count; every negative one as null."""
    out = bytearray()
    _length_writer(at, _int16 if isinstance(wire, String) else _int32)(out, max(length, -1))
    return bytes(out)


def _refuse_null(position: int) -> InvalidRecord:
    return InvalidRecord("may not be null, found a negative length", position=position).because("null")


def _too_long(what: str, length: int, left: int, position: int) -> InvalidRecord:
    error = InvalidRecord(f"{what} of length {length} was announced, {left} bytes are left", position=position)
    return error.because("count" if what == "an array" else "bytes", length, left)


class Int(Wire):
    """A big-endian integer of 1, 2, 4 or 8 bytes."""

    default = 0

    def __init__(self, name: str, code: str) -> None:
        self.name = name
        self.struct = struct.Struct(">" + code)
        bits = self.struct.size * 8
        self.least = 0 if code.isupper() else -(2 ** (bits - 1))
        self.most = self.least + 2**bits - 1

    def reader(self, at: At, nullable: bool) -> Reader:
        unpack, size = self.struct.unpack_from, self.struct.size
        return lambda buffer, position: (unpack(buffer, position)[0], position + size)

    def writer(self, at: At, nullable: bool) -> Writer:
        pack, expected = self.struct.pack, f"an {self.name} ({self.least} to {self.most})"

        def write(out: bytearray, value: Any) -> None:
            try:
                out += pack(value)
            except struct.error:
                raise UsageError(f"{expected} was expected, not {value!r}") from None

        return write

    def from_json(self, value: Any, at: At) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not self.least <= value <= self.most:
            raise UsageError(f"an {self.name} ({self.least} to {self.most}) was expected, not {value!r}")
        return value


class Uuid(Wire):
    """16 bytes, held as Kafka's text: base64url, 22 characters."""

    name = "uuid"
    default = "AAAAAAAAAAAAAAAAAAAAAA"

    def reader(self, at: At, nullable: bool) -> Reader:
        def read(buffer: bytes, position: int) -> tuple[str, int]:
            end = position + 16
            if end > len(buffer):
                raise _too_long("a uuid", 16, len(buffer) - position, position).because()
            return uuid_text(buffer[position:end]), end

        return read

    def writer(self, at: At, nullable: bool) -> Writer:
        def write(out: bytearray, value: Any) -> None:
            out += uuid_bytes(self.from_json(value, at))

        return write

    def from_json(self, value: Any, at: At) -> str:
        try:
            return uuid_text(uuid_bytes(value))
        except (ValueError, AttributeError):
            raise UsageError(f"a uuid (22 characters of base64url) was expected, not {value!r}") from None


class String(Wire):
    """Java's UTF-8, at most 32767 bytes."""

    name = "string"
    default = ""

    def reader(self, at: At, nullable: bool) -> Reader:
        unpack = _int16.unpack_from
        compact = _length_reader(at, _int16) if at.flexible else None

        def read(buffer: bytes, position: int) -> tuple[str | None, int]:
            if compact is None:
                length, start = unpack(buffer, position)[0], position + 2
            else:
                length, start = compact(buffer, position)
            if length < 0:
                if nullable:
                    return None, start
                raise _refuse_null(position)
            end = start + length
            if end > len(buffer) or length > MAX_STRING:
                error = _too_long("a string", length, len(buffer) - start, position)
                raise error.because("length", length) if length > MAX_STRING else error
            return buffer[start:end].decode("utf-8", "kafkagroups.java"), end

        return read

    def writer(self, at: At, nullable: bool) -> Writer:
        write_length, pack = _length_writer(at, _int16), _int16.pack
        compact = at.flexible

        def write(out: bytearray, value: Any) -> None:
            if value is None and nullable:
                return write_length(out, -1)
            if not isinstance(value, str):
                raise UsageError(f"a string was expected, not {value!r}")
            try:
                data = value.encode()
            except UnicodeEncodeError:
                data = encode_utf8(value)
            if len(data) > MAX_STRING:
                raise UsageError(f"a string of at most {MAX_STRING} bytes was expected, not one of {len(data)}")
            if compact:
                write_uvarint(out, len(data) + 1)
            else:
                out += pack(len(data))
            out += data
            return None

        return write

    def from_json(self, value: Any, at: At) -> str:
        if not isinstance(value, str):
            raise UsageError(f"a string was expected, not {value!r}")
        return value


class Bytes(Wire):
    """Raw bytes; base64 in JSON."""

    name = "bytes"
    default = b""

    def reader(self, at: At, nullable: bool) -> Reader:
        read_length = _length_reader(at, _int32)

        def read(buffer: bytes, position: int) -> tuple[bytes | None, int]:
            length, start = read_length(buffer, position)
            if length < 0:
                if nullable:
                    return None, start
                raise _refuse_null(position)
            end = start + length
            if end > len(buffer):
                raise _too_long("bytes", length, len(buffer) - start, position)
            return buffer[start:end], end

        return read

    def writer(self, at: At, nullable: bool) -> Writer:
        write_length = _length_writer(at, _int32)

        def write(out: bytearray, value: Any) -> None:
            if value is None and nullable:
                return write_length(out, -1)
            if not isinstance(value, bytes):
                raise UsageError(f"bytes were expected, not {value!r}")
            write_length(out, len(value))
            out += value
            return None

        return write

    def to_json(self, value: Any, at: At) -> str:
        return base64.b64encode(value).decode()

    def from_json(self, value: Any, at: At) -> bytes:
        try:
            return base64.b64decode(value, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise UsageError(f"base64 was expected, not {value!r}") from None


class Array(Wire):
    """A count, then the elements; a tuple in Python."""

    default = ()

    def __init__(self, of: Wire) -> None:
        self.of = of
        self.name = f"array of {of.name}"

    def reader(self, at: At, nullable: bool) -> Reader:
        read_length, read_element = _length_reader(at, _int32), self.of.reader(at, False)

        def read(buffer: bytes, position: int) -> tuple[tuple[Any, ...] | None, int]:
            count, start = read_length(buffer, position)
            if count < 0:
                if nullable:
                    return None, start
                raise _refuse_null(position)
            if count > len(buffer) - start:
                raise _too_long("an array", count, len(buffer) - start, position)
            elements = []
            position = start
            try:
                for _ in range(count):
                    element, position = read_element(buffer, position)
                    elements.append(element)
            except InvalidRecord as error:
                error.field = nested(f"[{len(elements)}]", error.field)
                raise
            return tuple(elements), position

        return read

    def writer(self, at: At, nullable: bool) -> Writer:
        write_length, write_element = _length_writer(at, _int32), self.of.writer(at, False)

        def write(out: bytearray, value: Any) -> None:
            if value is None and nullable:
                return write_length(out, -1)
            if not isinstance(value, tuple | list):
                raise UsageError(f"an {self.name} was expected, not {value!r}")
            write_length(out, len(value))
            for index, element in enumerate(value):
                try:
                    write_element(out, element)
                except UsageError as error:
                    raise error.inside(f"[{index}]") from None
            return None

        return write

    def to_json(self, value: Any, at: At) -> list[Any]:
        return [self.of.to_json(element, at) for element in value]

    def from_json(self, value: Any, at: At) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise UsageError(f"an {self.name} was expected, not {value!r}")
        elements = []
        for index, element in enumerate(value):
            try:
                elements.append(self.of.from_json(element, at))
            except UsageError as error:
                raise error.inside(f"[{index}]") from None
        return tuple(elements)


INT8 = Int("int8", "b")
INT16 = Int("int16", "h")
UINT16 = Int("uint16", "H")
INT32 = Int("int32", "i")
INT64 = Int("int64", "q")
UUID = Uuid()
STRING = String()
BYTES = Bytes()
