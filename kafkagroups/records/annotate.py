"""What each byte of a record means, and where bytes differ from those that Kafka's writer gives."""

from __future__ import annotations

from kafkagroups.errors import Deviation
from kafkagroups.records.dialect import Dialect, dialect
from kafkagroups.records.serde import decode
from kafkagroups.records.spans import Span, deviations_of, spans_of


def annotate(key: bytes | None, value: bytes | None, reader_of: Dialect | None = None) -> list[Span]:
    """Every byte of a record, in order, key first. InvalidRecord for what the reader refuses.

    Bytes after the end, which a broker ignores, are a span of their own.
    """
    rules = reader_of or dialect("new")
    return list(spans_of(decode(key, value, rules), key, value, rules))


def deviations(key: bytes | None, value: bytes | None, reader_of: Dialect | None = None) -> list[Deviation]:
    """Every place where the reader takes what Kafka's writer would not have written like that; [] for its own bytes.

    InvalidRecord for what the reader refuses.

    >>> for odd in deviations(bytes.fromhex("000200016700"), None):
    ...     print(odd)
    byte 5, key: bytes after the end: 1
    """
    rules = reader_of or dialect("new")
    return deviations_of(decode(key, value, rules), key, value, rules)
