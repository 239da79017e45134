"""Java's text rules: its UTF-8, its String.hashCode, and Kafka's text for a uuid.

The JVM writes and reads the strings in records, and it never refuses a string. Bytes that are not UTF-8 become U+FFFD,
and half a surrogate pair is written as `?`. Python and Java replace a malformed sequence with the same number of
U+FFFD, with one exception: an encoded surrogate (`ed a0 80`) becomes one U+FFFD in Java and three in Python.
Source: java.lang.String.decodeUTF8_UTF16 and encodeUTF8 of JDK 17; org.apache.kafka.common.Uuid.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import struct


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


codecs.register_error("kafkagroups.java", _replace_as_java)


def decode_utf8(data: bytes) -> str:
    """Return the Java String of `new String(data, UTF_8)`. It never fails."""
    return data.decode("utf-8", "kafkagroups.java")


def encode_utf8(text: str) -> bytes:
    """Return the bytes of Java's `text.getBytes(UTF_8)`. Half a surrogate pair becomes `?`. It never fails."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # In Java, the two halves of a pair next to each other are one character. UTF-16 joins them before single halves
        # become "?".
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "kafkagroups.half").encode()


def _replace_half_pair(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?", error.start + 2


codecs.register_error("kafkagroups.half", _replace_half_pair)


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: a polynomial of base 31 over UTF-16 units, as a signed 32-bit integer."""
    value = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def utf16_length(text: str) -> int:
    """Return Java's `String.length`. A character outside the basic plane counts twice."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def uuid_text(data: bytes) -> str:
    """Return 16 bytes as Kafka prints a Uuid: base64url without padding, 22 characters."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# "+" and "/" are not base64url characters. They become "!", which base64 refuses.
_URL_SAFE = bytes.maketrans(b"-_+/", b"+/!!")


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a Uuid's text. Raises ValueError if the text is not a Uuid."""
    message = f"expected a uuid (22 characters of base64url), found {text!r}"
    try:
        data = base64.b64decode(text.encode().translate(_URL_SAFE) + b"==", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(message) from error
    if len(data) != 16:
        raise ValueError(message)
    return data
