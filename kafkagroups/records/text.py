"""Java's UTF-8, its String.hashCode, and Kafka's text for a uuid.

Every string in a record was written by a JVM and will be read by one. The JVM never refuses a string:
bytes that are no UTF-8 become U+FFFD, and half a surrogate pair is written as `?`. Python agrees with Java on how
many U+FFFD a malformed sequence gives, except for encoded surrogates (`ed a0 80`): one in Java, three in Python.
Source: java.lang.String.decodeUTF8_UTF16 and encodeUTF8 of JDK 17; org.apache.kafka.common.Uuid.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import struct


def _as_java(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    if data[start] == 0xED and data[start + 1 : start + 2] >= b"\xa0":
        # An encoded surrogate: Java reads the sequence to its end and replaces it as one.
        end = start + 1
        while end < min(start + 3, len(data)) and data[end] & 0xC0 == 0x80:
            end += 1
        return "\ufffd", end
    return "\ufffd", error.end


codecs.register_error("kafkagroups.java", _as_java)


def decode_utf8(data: bytes) -> str:
    """The Java String that `new String(data, UTF_8)` makes. Never fails."""
    return data.decode("utf-8", "kafkagroups.java")


def encode_utf8(text: str) -> bytes:
    """The bytes of Java's `text.getBytes(UTF_8)`: half a surrogate pair is written as `?`. Never fails."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Two halves that stand together are one character to Java, so pair them before the lone ones become '?'.
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "kafkagroups.half").encode()


def _half_a_pair(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?", error.start + 2


codecs.register_error("kafkagroups.half", _half_a_pair)


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: 31-polynomial over UTF-16 units, as a signed 32-bit integer."""
    value = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def utf16_length(text: str) -> int:
    """Java's `String.length`: characters outside the basic plane count twice."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def uuid_text(data: bytes) -> str:
    """16 bytes as Kafka prints a Uuid: base64url without padding, 22 characters."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


_URL_SAFE = bytes.maketrans(b"-_+/", b"+/!!")  # "+" and "/" are no letters of base64url


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of a Uuid's text. ValueError if it is none."""
    try:
        data = base64.b64decode(text.encode().translate(_URL_SAFE) + b"==", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(f"{text!r} is no uuid in Kafka's form (22 characters of base64url)") from error
    if len(data) != 16:
        raise ValueError(f"{text!r} is no uuid in Kafka's form (22 characters of base64url)")
    return data
