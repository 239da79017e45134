"""The wire types of Kafka's record schemas: integers, uuid, string, bytes and array, with Java's rules for text.

Some versions of a message are flexible: they have compact lengths, and tagged fields (structs.py).

    type     versions that are not flexible      flexible versions (compact)
    string   int16 length, -1 = null             uvarint length + 1, 0 = null
    bytes    int32 length, -1 = null             uvarint length + 1, 0 = null
    array    int32 count,  -1 = null             uvarint count + 1,  0 = null

Integers have 1, 2, 4 or 8 bytes and are big-endian; a uuid has 16 bytes. Kafka treats every negative length as null,
and refuses null if the field cannot be null. It also refuses an array whose count is larger than the number of bytes
after the count.

A uvarint is an unsigned integer of variable length: seven bits per byte, the low bits first; the high bit of a byte is
1 if another byte follows.

Java never refuses a string. Where bytes are not UTF-8, it reads U+FFFD, as Python does, but one U+FFFD for an encoded
surrogate (such as `ed a0 80`), for which Python reads three. It stores text as UTF-16, in which a character above
U+FFFF is a pair of surrogates, and writes a surrogate without its pair as `?`.
Source (4.3.1): the code that MessageDataGenerator writes; ByteBufferAccessor; ByteUtils.readUnsignedVarint;
java.lang.String.decodeUTF8_UTF16 and encodeUTF8 (JDK 17); org.apache.kafka.common.Uuid.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import struct
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from kafkagroups.errors import InvalidRecord, UsageError, join_path
from kafkagroups.helpers import MAX_INT64, MIN_INT64
from kafkagroups.records.releases import TOO_MANY_ELEMENTS

JAVA_ERROR_HANDLER = "kafkagroups.java"


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data = error.object
    start = error.start
    if data[start] == 0xED and data[start + 1 : start + 2] >= b"\xa0":
        # This is an encoded surrogate. Java replaces the whole sequence with one character.
        end = start + 1
        while end < min(start + 3, len(data)) and data[end] & 0xC0 == 0x80:
            end += 1
        return "\ufffd", end
    return "\ufffd", error.end


codecs.register_error(JAVA_ERROR_HANDLER, _replace_as_java)


def decode_utf8(data: bytes) -> str:
    """Return the text of Java's `new String(data, UTF_8)`."""
    return data.decode("utf-8", JAVA_ERROR_HANDLER)


def encode_utf8(text: str) -> bytes:
    """Return the bytes of Java's `text.getBytes(UTF_8)`."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # A Python text can contain both surrogates of a pair as two characters. In Java, they are one character. The
        # detour through UTF-16 joins the two surrogates, and only surrogates without a pair become "?".
        joined = text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
        return joined.encode("utf-8", "replace")


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`, a signed 32-bit integer. Java computes 31 * hash + unit for each UTF-16 unit."""
    value = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def utf16_length(text: str) -> int:
    """Return Java's `String.length`, the number of UTF-16 units. A character above U+FFFF counts twice."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def uuid_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


_BASE64URL_TO_BASE64 = bytes.maketrans(b"-_+/", b"+/!!")


def uuid_bytes(text: Any) -> bytes:
    """Return the 16 bytes of a uuid in base64url, or raise UsageError for anything else."""
    try:
        data = base64.b64decode(text.encode().translate(_BASE64URL_TO_BASE64) + b"==", validate=True)
    except (AttributeError, binascii.Error, UnicodeEncodeError):
        data = b""
    if len(data) != UUID_BYTES:
        raise UsageError(f"expected a uuid (22 characters of base64url), found {text!r}")
    return data


LARGEST_VERSION = 2**15 - 1
"""The largest possible version number of a message."""
MAX_STRING_BYTES = 0x7FFF
MAX_SHOWN_BITS = 256
"""An error message shows the digits of a number up to this size. Python refuses to print very large numbers."""
MAX_ELEMENTS = 1_000_000
UUID_BYTES = 16


@dataclass(frozen=True, slots=True, eq=False)
class MessageFormat:
    """Everything that decides how a message is encoded (`make_format`, structs.py).

    `kafka` is the Kafka version that reads or writes the message, which decides which tagged fields exist, and
    `newest_version` the newest version of the message that it has.
    """

    version: int
    flexible: bool
    kafka: tuple[int, ...]
    newest_version: int


def read_uvarint(buffer: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned varint at a position of the buffer, and the position after the varint.

    A number above 2^31 - 1 becomes negative, as in Java. Raises InvalidRecord if the varint is longer than 5 bytes, and
    IndexError if the buffer ends inside the varint.
    """
    value = 0
    for index in range(5):
        byte = buffer[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return signed32(value), position + index + 1
    error = InvalidRecord("expected a varint of at most 5 bytes, found a longer one", position=position + 4)
    raise error.with_cause("varint", value & 0xFFFFFFFF)


def uvarint_bytes(value: int) -> bytes:
    value &= 0xFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed32(value: int) -> int:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def to_int64(value: int) -> int:
    """Return the int64 with the lowest 64 bits of a number, so that sums overflow as in Java."""
    if MIN_INT64 <= value <= MAX_INT64:
        return value
    return (value - MIN_INT64) % 2**64 + MIN_INT64


class Wire(ABC):
    """A wire type.

    In all methods, `form` is the format of the message that contains the field, and `nullable` says whether the field
    can be null.
    """

    name: str
    default: Any

    @abstractmethod
    def read(self, buffer: bytes, position: int, form: MessageFormat, nullable: bool) -> tuple[Any, int]:
        """Raises InvalidRecord, or struct.error or IndexError if the buffer ends too early."""

    @abstractmethod
    def write(self, out: bytearray, value: Any, form: MessageFormat, nullable: bool) -> None:
        """Append the bytes of a value to `out`. Raises UsageError if the value is not of this type."""

    def to_json(self, value: Any, form: MessageFormat) -> Any:
        return value

    @abstractmethod
    def from_json(self, value: Any, form: MessageFormat) -> Any:
        """Return the Python value of a JSON value. Raises UsageError if the JSON value has a wrong type."""


class Int(Wire):
    """A big-endian integer. `code` is its format character in Python's module struct; an upper-case one is unsigned."""

    default = 0

    def __init__(self, name: str, code: str) -> None:
        self.name = name
        self.struct = struct.Struct(">" + code)
        self.size = self.struct.size
        bits = self.size * 8
        self.minimum = 0 if code.isupper() else -(2 ** (bits - 1))
        self.maximum = self.minimum + 2**bits - 1

    def read(self, buffer: bytes, position: int, form: MessageFormat, nullable: bool) -> tuple[int, int]:
        return self.struct.unpack_from(buffer, position)[0], position + self.size

    def write(self, out: bytearray, value: Any, form: MessageFormat, nullable: bool) -> None:
        try:
            out += self.struct.pack(value)
        except struct.error:
            raise self._make_range_error(value) from None

    def from_json(self, value: Any, form: MessageFormat) -> int:
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
    """In Python, a uuid is a string of 22 characters, in base64url, as in Kafka's own output."""

    name = "uuid"
    default = "AAAAAAAAAAAAAAAAAAAAAA"

    def read(self, buffer: bytes, position: int, form: MessageFormat, nullable: bool) -> tuple[str, int]:
        end = position + UUID_BYTES
        if end > len(buffer):
            # Kafka's exception has no message, so this error gets no cause (InvalidRecord.cause).
            reason = f"expected a uuid of length {UUID_BYTES}, found {len(buffer) - position} more bytes"
            raise InvalidRecord(reason, position=position)
        return uuid_text(buffer[position:end]), end

    def write(self, out: bytearray, value: Any, form: MessageFormat, nullable: bool) -> None:
        out += uuid_bytes(self.from_json(value, form))

    def from_json(self, value: Any, form: MessageFormat) -> str:
        return uuid_text(uuid_bytes(value))


class Sized(Wire):
    """A wire type whose length or count comes before its content, and says whether the value is null."""

    length_struct = struct.Struct(">i")

    def read_length(self, buffer: bytes, position: int, form: MessageFormat) -> tuple[int, int]:
        """A negative length means null."""
        if form.flexible:
            stored, position = read_uvarint(buffer, position)
            return signed32(stored - 1), position
        return self.length_struct.unpack_from(buffer, position)[0], position + self.length_struct.size

    def length_bytes(self, length: int, form: MessageFormat) -> bytes:
        """A negative length is written as null."""
        length = max(length, -1)
        return uvarint_bytes(length + 1) if form.flexible else self.length_struct.pack(length)

    def read_null(self, start: int, position: int, nullable: bool) -> tuple[None, int]:
        """Return null, and the position `start` after its length. Raises InvalidRecord if it is not allowed."""
        if nullable:
            return None, start
        error = InvalidRecord("expected a value that is not null, found a negative length", position=position)
        raise error.with_cause("null")

    def write(self, out: bytearray, value: Any, form: MessageFormat, nullable: bool) -> None:
        if value is None and nullable:
            out += self.length_bytes(-1, form)
        else:
            self.write_content(out, value, form)

    @abstractmethod
    def write_content(self, out: bytearray, value: Any, form: MessageFormat) -> None:
        """Append the length and the content of a value that is not null."""


class String(Sized):
    """A string of at most 32767 bytes, in UTF-8 with Java's rules for malformed text (wire.py)."""

    name = "string"
    default = ""
    length_struct = struct.Struct(">h")

    def read(self, buffer: bytes, position: int, form: MessageFormat, nullable: bool) -> tuple[str | None, int]:
        length, start = self.read_length(buffer, position, form)
        if length == 0:
            return "", start
        if length < 0:
            return self.read_null(start, position, nullable)
        end = start + length
        if length > MAX_STRING_BYTES:
            raise _make_length_error("a string", length, start, buffer, position).with_cause("length", length)
        if end > len(buffer):
            raise _make_length_error("a string", length, start, buffer, position)
        return decode_utf8(buffer[start:end]), end

    def write_content(self, out: bytearray, value: Any, form: MessageFormat) -> None:
        data = encode_utf8(self.from_json(value, form))
        if len(data) > MAX_STRING_BYTES:
            raise UsageError(f"expected a string of at most {MAX_STRING_BYTES} bytes, found {len(data)} bytes")
        out += self.length_bytes(len(data), form) + data

    def from_json(self, value: Any, form: MessageFormat) -> str:
        if not isinstance(value, str):
            raise UsageError(f"expected a string, found {value!r}")
        return value


class Bytes(Sized):
    """A value of type bytes: any sequence of bytes. In JSON, the value is base64."""

    name = "bytes"
    default = b""

    def read(self, buffer: bytes, position: int, form: MessageFormat, nullable: bool) -> tuple[bytes | None, int]:
        length, start = self.read_length(buffer, position, form)
        if length < 0:
            return self.read_null(start, position, nullable)
        end = start + length
        if end > len(buffer):
            raise _make_length_error("bytes", length, start, buffer, position)
        return buffer[start:end], end

    def write_content(self, out: bytearray, value: Any, form: MessageFormat) -> None:
        if not isinstance(value, bytes):
            raise UsageError(f"expected bytes, found {value!r}")
        out += self.length_bytes(len(value), form) + value

    def to_json(self, value: Any, form: MessageFormat) -> str:
        return base64.b64encode(value).decode()

    def from_json(self, value: Any, form: MessageFormat) -> bytes:
        try:
            return base64.b64decode(value, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise UsageError(f"expected base64, found {value!r}") from None


class Array(Sized):
    """An array: a count, then the elements. In Python, an array is a tuple."""

    default = ()

    def __init__(self, element_type: Wire) -> None:
        self.element_type = element_type
        self.name = f"array of {element_type.name}"

    def read(self, buffer: bytes, position: int, form: MessageFormat, nullable: bool) -> tuple[Any, int]:
        count, start = self.read_length(buffer, position, form)
        if count < 0:
            return self.read_null(start, position, nullable)
        bytes_left = len(buffer) - start
        if count > bytes_left:
            error = _make_length_error("an array", count, start, buffer, position)
            raise error.with_cause("count", count, bytes_left)
        if count > MAX_ELEMENTS and TOO_MANY_ELEMENTS.applies_to(form.kafka):
            reason = f"expected an array of at most {MAX_ELEMENTS} elements, found {count}"
            raise InvalidRecord(reason, position=position).with_cause("elements", count, MAX_ELEMENTS)
        elements = []
        position = start
        for index in range(count):
            try:
                element, position = self.element_type.read(buffer, position, form, nullable=False)
            except InvalidRecord as error:
                error.field = join_path(f"[{index}]", error.field)
                raise
            elements.append(element)
        return tuple(elements), position

    def write_content(self, out: bytearray, value: Any, form: MessageFormat) -> None:
        if not isinstance(value, tuple | list):
            raise UsageError(f"expected an {self.name}, found {value!r}")
        out += self.length_bytes(len(value), form)
        for index, element in enumerate(value):
            try:
                self.element_type.write(out, element, form, nullable=False)
            except UsageError as error:
                raise error.prefix_field(f"[{index}]") from None

    def to_json(self, value: Any, form: MessageFormat) -> list[Any]:
        return [self.element_type.to_json(element, form) for element in value]

    def from_json(self, value: Any, form: MessageFormat) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise UsageError(f"expected an {self.name}, found {value!r}")
        elements = []
        for index, element in enumerate(value):
            try:
                elements.append(self.element_type.from_json(element, form))
            except UsageError as error:
                raise error.prefix_field(f"[{index}]") from None
        return tuple(elements)


def _make_length_error(noun: str, length: int, start: int, buffer: bytes, position: int) -> InvalidRecord:
    bytes_left = len(buffer) - start
    error = InvalidRecord(f"expected {noun} of length {length}, found {bytes_left} more bytes", position=position)
    return error.with_cause("bytes", length, bytes_left)


INT8 = Int("int8", "b")
INT16 = Int("int16", "h")
UINT16 = Int("uint16", "H")
INT32 = Int("int32", "i")
INT64 = Int("int64", "q")
UUID = Uuid()
STRING = String()
BYTES = Bytes()
