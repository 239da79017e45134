"""The public functions `decode` (optionally strict), `annotate` and `deviations`.

An encoding is canonical if Kafka's writer would produce the same bytes. spans.py lists the encodings that are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from kafkagroups.anatomy.spans import Span, deviations_of, spans_of
from kafkagroups.errors import Deviation, InvalidRecord
from kafkagroups.records import serde
from kafkagroups.records.serde import Record
from kafkagroups.records.versions import DEFAULT_DIALECT, Dialect


class Annotation(list[Span]):
    """The spans of a record in order, and the bytes that they describe. A span is a range of bytes with one field.

    `bytes_of` contains the bytes of each part of the record: "key" and "value".

    An annotation is shown as a table: `str()` returns text, and a notebook shows HTML. The table shows only the
    beginning of long bytes and values.
    """

    def __init__(self, spans: Iterable[Span], bytes_of: Mapping[str, bytes]) -> None:
        super().__init__(spans)
        self.bytes_of = bytes_of

    def __str__(self) -> str:
        return "\n".join(
            f"{span.part} {span.start:>3}  {self._hex(span):<26} {span.field} = {span.text[:40]}  ({span.meaning})"
            for span in self
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(span.part)} {span.start}</td><td><code>{self._hex(span)}</code></td>"
            f"<td>{escape(span.field)}</td><td>{escape(span.type)}</td>"
            f"<td>{escape(span.text[:40])}</td><td>{escape(span.meaning)}</td></tr>"
            for span in self
        )
        head = "".join(f"<th>{name}</th>" for name in ("byte", "bytes", "field", "type", "value", "meaning"))
        return f"<table><tr>{head}</tr>{rows}</table>"

    def _hex(self, span: Span) -> str:
        """Return the first 8 bytes of a span in hexadecimal."""
        data = self.bytes_of[span.part][span.start : span.end]
        return data[:8].hex(" ") + (" …" if len(data) > 8 else "")


def annotate(key: bytes | None, value: bytes | None, reader_of: Dialect | None = None) -> Annotation:
    """Explain every byte of a record.

    Parameters
    ----------
    key, value
        The bytes of the record. A value of None is a tombstone.
    reader_of
        The coordinator whose rules apply; None for Kafka 4.3.1's coordinator.

    Returns
    -------
    Annotation
        A list of spans in order, the key first. A broker ignores bytes after the end of the key or the value; these
        bytes are a separate span. `Span.odd` contains the non-canonical encodings.

    Raises
    ------
    InvalidRecord
        The reader refuses the bytes.

    Examples
    --------
    >>> annotate(bytes.fromhex("0002000167"), None)[2].value
    'g'
    """
    dialect = reader_of or DEFAULT_DIALECT
    spans = spans_of(decode(key, value, dialect), key, value, dialect)
    return Annotation(spans, {"key": key or b"", "value": value or b""})


def decode(key: bytes | None, value: bytes | None, reader_of: Dialect | None = None, *, strict: bool = False) -> Record:
    """Decode a record.

    Parameters
    ----------
    key, value
        The bytes of the record. A value of None is a tombstone.
    reader_of
        The coordinator whose rules apply; None for Kafka 4.3.1's coordinator.
    strict
        Refuse bytes that Kafka's writer would not produce for this record.

    Returns
    -------
    Record
        The decoded record. Unless `strict` is set, bytes after the end of a key or a value are ignored.

    Raises
    ------
    InvalidRecord
        The coordinator cannot read the bytes. Or `strict` is set, and the bytes have a non-canonical encoding; the
        error's `deviations` then contains every such encoding.

    Notes
    -----
    Source: GroupCoordinatorRecordSerde.java (4.3.1), GroupMetadataManager.scala (up to 3.9).

    Examples
    --------
    >>> decode(bytes.fromhex("0002000167"), None).key
    GroupMetadataKey(group='g')
    """
    dialect = reader_of or DEFAULT_DIALECT
    record = serde.decode(key, value, dialect)
    found = deviations_of(record, key, value, dialect) if strict else []
    if found:
        first = found[0]
        others = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        error = InvalidRecord(first.reason + others, field=first.field, position=first.position)
        error.deviations = tuple(found)
        raise error
    return record


def deviations(key: bytes | None, value: bytes | None, reader_of: Dialect | None = None) -> list[Deviation]:
    """Find the non-canonical encodings of a record: Kafka's reader accepts them, but its writer never produces them.

    Parameters
    ----------
    key, value
        The bytes of the record. A value of None is a tombstone.
    reader_of
        The coordinator whose rules apply; None for Kafka 4.3.1's coordinator.

    Returns
    -------
    list of Deviation
        The encodings in the order of the bytes; empty for bytes that Kafka's writer produced.

    Raises
    ------
    InvalidRecord
        The reader refuses the bytes.

    Examples
    --------
    >>> for deviation in deviations(bytes.fromhex("000200016700"), None):
    ...     print(deviation)
    byte 5, key: bytes after the end: 1
    """
    dialect = reader_of or DEFAULT_DIALECT
    return deviations_of(decode(key, value, dialect), key, value, dialect)
