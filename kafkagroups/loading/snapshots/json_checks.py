"""Readers of the JSON in a snapshot. Each reader returns a checked value, and refuses any other value.

A reader is a function that receives a value of parsed JSON. For a wrong value, the reader raises InvalidLog, whose
`field` is the path of the value. In this file, InvalidLog means that the JSON of a snapshot is wrong, not the log. A
schema has a reader for each field of a JSON object.

An object must have exactly the fields of its schema. So a file that was damaged, or that another program has written,
is refused before any of its content is used.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kafkagroups.errors import InvalidLog, join_path

T = TypeVar("T")
Reader = Callable[[Any], T]
Schema = Mapping[str, Reader[Any]]

_SURROGATE_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]")
r"""The escape of a surrogate, such as `\ud800`. `write_json` never writes one, because it writes UTF-8."""


def write_json(value: Any) -> bytes:
    """Return a value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON text. Raise InvalidLog if a string contains the escape of a surrogate."""
    try:
        if b"\\u" in data and _SURROGATE_ESCAPE.search(data):
            raise InvalidLog(r"expected UTF-8, found the escape of a surrogate, such as \ud800")
        return json.loads(data.decode())
    except RecursionError:
        raise InvalidLog("expected JSON with few levels, found too many") from None
    except ValueError as error:
        raise InvalidLog(f"expected JSON: {error}") from None


def describe(value: Any) -> str:
    """Return a short text of a JSON value for a message."""
    return "null" if value is None else reprlib.repr(value)


def read_object(value: Any, schema: Schema) -> dict[str, Any]:
    """Return the checked fields of an object. It must have exactly the fields of the schema."""
    if not isinstance(value, dict):
        raise InvalidLog(f"expected an object, found {describe(value)}")
    if value.keys() != schema.keys():
        raise _make_fields_error(value, schema)
    fields = {}
    name = ""
    try:
        for name, read in schema.items():
            fields[name] = read(value[name])
    except InvalidLog as error:
        error.field = join_path(name, error.field)
        raise
    return fields


def _make_fields_error(value: dict[str, Any], schema: Schema) -> InvalidLog:
    if missing := schema.keys() - value.keys():
        return InvalidLog("this field is missing", field=min(missing))
    return InvalidLog("this field is unknown", field=describe(min(value.keys() - schema.keys())))


def list_of(read: Reader[T]) -> Reader[list[T]]:
    """Return a reader of lists whose elements `read` checks."""

    def read_elements(value: Any) -> list[T]:
        if not isinstance(value, list):
            raise InvalidLog(f"expected a list, found {describe(value)}")
        elements: list[T] = []
        try:
            for element in value:
                elements.append(read(element))
        except InvalidLog as error:
            error.field = join_path(f"[{len(elements)}]", error.field)
            raise
        return elements

    return read_elements


def map_of(read: Reader[T]) -> Reader[dict[str, T]]:
    """Return a reader of objects. The keys can be any strings, and `read` checks the values."""

    def read_values(value: Any) -> dict[str, T]:
        if not isinstance(value, dict):
            raise InvalidLog(f"expected an object, found {describe(value)}")
        values: dict[str, T] = {}
        key = ""
        try:
            for key, content in value.items():
                values[key] = read(content)
        except InvalidLog as error:
            error.field = join_path(f"[{describe(key)}]", error.field)
            raise
        return values

    return read_values


def optional(read: Reader[T]) -> Reader[T | None]:
    """Return a reader that accepts null and the values that `read` accepts."""
    return lambda value: None if value is None else read(value)


def number_from(minimum: int, maximum: int) -> Reader[int]:
    """Return a reader of the integers from `minimum` to `maximum`."""

    def read_number(value: Any) -> int:
        if type(value) is not int or not minimum <= value <= maximum:
            raise InvalidLog(f"expected a number from {minimum} to {maximum}, found {describe(value)}")
        return value

    return read_number


read_int8 = number_from(-(1 << 7), (1 << 7) - 1)
read_int32 = number_from(-(1 << 31), (1 << 31) - 1)
read_int64 = number_from(-(1 << 63), (1 << 63) - 1)
read_count = number_from(0, (1 << 63) - 1)


def read_text(value: Any) -> str:
    """Return a value that is a string."""
    if type(value) is not str:
        raise InvalidLog(f"expected a string, found {describe(value)}")
    return value


def exactly(expected: Any) -> Reader[Any]:
    """Return a reader of one value: a string, a number or null."""

    def read_expected(value: Any) -> Any:
        if value != expected or type(value) is not type(expected):
            raise InvalidLog(f"expected {describe(expected)}, found {describe(value)}")
        return value

    return read_expected


def choice_of(*texts: str) -> Reader[str]:
    """Return a reader of one of these strings."""

    def read_choice(value: Any) -> str:
        if value not in texts or type(value) is not str:
            raise InvalidLog(f"expected {' or '.join(texts)}, found {describe(value)}")
        return value

    return read_choice


def bytes_text(data: bytes) -> str:
    """Return bytes as base64, the text that `read_bytes` reads."""
    return base64.b64encode(data).decode()


def read_bytes(value: Any) -> bytes:
    """Return the bytes of a base64 string."""
    try:
        return base64.b64decode(read_text(value), validate=True)
    except (ValueError, binascii.Error):
        raise InvalidLog(f"expected base64, found {describe(value)}") from None
