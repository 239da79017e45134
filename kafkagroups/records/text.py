"""Java's text rules: its UTF-8, its String.hashCode, and Kafka's text for a uuid.

Kafka runs on Java, so records contain strings that Java has written. Java never refuses a string:

- Reading: bytes that are not UTF-8 become the replacement character U+FFFD. Python and Java replace malformed bytes
  with the same number of U+FFFD, with one exception. An encoded surrogate, such as the bytes `ed a0 80`, becomes one
  U+FFFD in Java and three in Python.
- Writing: Java stores text as UTF-16. A character above U+FFFF is a pair of two UTF-16 units, called surrogates. A
  surrogate without its pair is written as `?`.

Source: java.lang.String.decodeUTF8_UTF16 and java.lang.String.encodeUTF8 (JDK 17); org.apache.kafka.common.Uuid.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import struct

JAVA_ERROR_HANDLER = "kafkagroups.java"
"""The name of the error handler for `bytes.decode` that replaces malformed bytes as Java does."""
_LONE_SURROGATE_HANDLER = "kafkagroups.half"
"""The name of the error handler that replaces each surrogate without its pair with `?`."""


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement for malformed bytes, and the position at which decoding continues."""
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
    """Return the text of Java's `new String(data, UTF_8)`. This function never fails."""
    return data.decode("utf-8", JAVA_ERROR_HANDLER)


def encode_utf8(text: str) -> bytes:
    """Return the bytes of Java's `text.getBytes(UTF_8)`. This function never fails."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        # A Python text can contain both surrogates of a pair as two characters. In Java, they are one character. The
        # detour through UTF-16 joins the two surrogates, and only surrogates without a pair become "?".
        return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", _LONE_SURROGATE_HANDLER).encode()


def _replace_lone_surrogate(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?", error.start + 2


codecs.register_error(_LONE_SURROGATE_HANDLER, _replace_lone_surrogate)


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
    """Return 16 bytes as Kafka prints a Uuid: base64url without padding, 22 characters."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


_BASE64URL_TO_BASE64 = bytes.maketrans(b"-_+/", b"+/!!")
"""Converts base64url to base64. The characters "+" and "/" are not base64url, so they become "!", which is refused."""


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a Uuid's text. Raises ValueError if the text is not a Uuid."""
    message = f"expected a uuid (22 characters of base64url), found {text!r}"
    try:
        data = base64.b64decode(text.encode().translate(_BASE64URL_TO_BASE64) + b"==", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(message) from error
    if len(data) != 16:
        raise ValueError(message)
    return data
