"""The public functions `decode` (optionally strict), `annotate` and `deviations`.

`annotate` explains every byte of a record. `deviations` lists the encodings that are not canonical, and a strict
`decode` refuses them. An encoding is canonical if Kafka's writer would produce the same bytes. spans.py lists the
non-canonical encodings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from kafkagroups.errors import Deviation, InvalidRecord
from kafkagroups.records import serde
from kafkagroups.records.dialects import DEFAULT_DIALECT, Dialect
from kafkagroups.records.serde import Record
from kafkagroups.records.spans import Span, find_deviations, split_into_spans

MAX_SHOWN_BYTES = 8
"""A table shows at most this number of bytes of a span."""
MAX_SHOWN_CHARACTERS = 40
"""A table shows at most this number of characters of a value."""
_COLUMN_NAMES = ("byte", "bytes", "field", "type", "value", "meaning")
"""The columns of the HTML table. "byte" is the part and the position of the first byte. "bytes" is the content."""


class Annotation(list[Span]):
    """The spans of a record, in order. A span is a range of bytes with one field.

    `bytes_by_part` contains the bytes of the key and of the value, by the names "key" and "value".

    An annotation is shown as a table: `str()` returns text, and a notebook shows HTML.
    """

    def __init__(self, spans: Iterable[Span], bytes_by_part: Mapping[str, bytes]) -> None:
        super().__init__(spans)
        self.bytes_by_part = bytes_by_part

    def __str__(self) -> str:
        return "\n".join(
            f"{span.part} {span.start:>3}  {self._format_bytes(span):<26} "
            f"{span.field} = {_shorten(span.text)}  ({span.meaning})"
            for span in self
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(span.part)} {span.start}</td><td><code>{self._format_bytes(span)}</code></td>"
            f"<td>{escape(span.field)}</td><td>{escape(span.type)}</td>"
            f"<td>{escape(_shorten(span.text))}</td><td>{escape(span.meaning)}</td></tr>"
            for span in self
        )
        head = "".join(f"<th>{name}</th>" for name in _COLUMN_NAMES)
        return f"<table><tr>{head}</tr>{rows}</table>"

    def _format_bytes(self, span: Span) -> str:
        data = self.bytes_by_part[span.part][span.start : span.end]
        return data[:MAX_SHOWN_BYTES].hex(" ") + (" …" if len(data) > MAX_SHOWN_BYTES else "")


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[:MAX_SHOWN_CHARACTERS] + "…"


def annotate(key: bytes | None, value: bytes | None, dialect: Dialect | None = None) -> Annotation:
    """Return an explanation of every byte of a record.

    Parameters
    ----------
    key, value
        The bytes of the record. A value of None is a tombstone.
    dialect
        The dialect of the coordinator that reads the record; None means the new coordinator of Kafka 4.3.1.

    Returns
    -------
    Annotation
        A list of spans in order, the key first. If bytes follow after the end of the key or the value, they are a
        separate span, because a broker ignores them. The attribute `odd` of a span contains one text for each
        non-canonical encoding in the bytes of this span.

    Raises
    ------
    InvalidRecord
        The reader refuses the bytes.

    Examples
    --------
    >>> annotate(bytes.fromhex("0002000167"), None)[2].value
    'g'
    """
    dialect = dialect or DEFAULT_DIALECT
    spans = split_into_spans(decode(key, value, dialect), key, value, dialect)
    return Annotation(spans, {"key": key or b"", "value": value or b""})


def decode(key: bytes | None, value: bytes | None, dialect: Dialect | None = None, *, strict: bool = False) -> Record:
    """Return the record of a key and a value.

    Parameters
    ----------
    key, value
        The bytes of the record. A value of None is a tombstone.
    dialect
        The dialect of the coordinator that reads the record; None means the new coordinator of Kafka 4.3.1.
    strict
        Whether to refuse bytes that Kafka's writer would not produce for this record.

    Returns
    -------
    Record
        The decoded record. Unless `strict` is set, bytes after the end of a key or a value are ignored.

    Raises
    ------
    InvalidRecord
        The coordinator cannot read the bytes.
        With `strict`: the bytes have non-canonical encodings. The error's attribute `deviations` contains all of them.

    Notes
    -----
    Source: GroupCoordinatorRecordSerde.java (4.3.1), GroupMetadataManager.scala (up to 3.9).

    Examples
    --------
    >>> decode(bytes.fromhex("0002000167"), None).key
    GroupMetadataKey(group='g')
    """
    dialect = dialect or DEFAULT_DIALECT
    record = serde.decode(key, value, dialect)
    found_deviations = find_deviations(record, key, value, dialect) if strict else []
    if found_deviations:
        first = found_deviations[0]
        other_count = len(found_deviations) - 1
        others = f" (and {other_count} more)" if other_count > 0 else ""
        error = InvalidRecord(first.reason + others, field=first.field, position=first.position)
        error.deviations = tuple(found_deviations)
        raise error
    return record


def deviations(key: bytes | None, value: bytes | None, dialect: Dialect | None = None) -> list[Deviation]:
    """Return the non-canonical encodings of a record, which Kafka's reader accepts but Kafka's writer never produces.

    Parameters
    ----------
    key, value
        The bytes of the record. A value of None is a tombstone.
    dialect
        The dialect of the coordinator that reads the record; None means the new coordinator of Kafka 4.3.1.

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
    byte 5, key: 1 byte after the end
    """
    dialect = dialect or DEFAULT_DIALECT
    return find_deviations(decode(key, value, dialect), key, value, dialect)
