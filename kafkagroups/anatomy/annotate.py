"""What each byte of a record means, and where bytes differ from those that Kafka's writer gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from kafkagroups.anatomy.spans import Span, deviations_of, spans_of
from kafkagroups.errors import Deviation, InvalidRecord
from kafkagroups.records import serde
from kafkagroups.records.serde import Record
from kafkagroups.records.versions import Dialect, dialect


class Annotation(list[Span]):
    """Spans in order, with the bytes that they are of (`bytes_of`, by part).

    It shows itself as a table: `str()` as text, in a notebook as HTML. Long bytes and values are cut there.
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
        data = self.bytes_of[span.part][span.start : span.end]
        return data[:8].hex(" ") + (" …" if len(data) > 8 else "")


def annotate(key: bytes | None, value: bytes | None, reader_of: Dialect | None = None) -> Annotation:
    """Every byte of a record, in order, key first. InvalidRecord for what the reader refuses.

    Bytes after the end, which a broker ignores, are a span of their own.
    """
    rules = reader_of or dialect("new")
    spans = spans_of(decode(key, value, rules), key, value, rules)
    return Annotation(spans, {"key": key or b"", "value": value or b""})


def decode(key: bytes | None, value: bytes | None, reader_of: Dialect | None = None, *, strict: bool = False) -> Record:
    """Reads a record as Kafka 4.3.1's coordinator does, or as `reader_of` says.

    InvalidRecord when that reader would refuse the bytes. What it does not mind is decoded: bytes after the end of a
    key or a value are ignored. `strict` refuses whatever Kafka's writer would not have written like that, and names
    all of it in the error's `deviations`.
    """
    record = serde.decode(key, value, reader_of)
    odd = deviations_of(record, key, value, reader_of or dialect("new")) if strict else []
    if odd:
        more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
        error = InvalidRecord(odd[0].reason + more, field=odd[0].field, position=odd[0].position)
        error.deviations = tuple(odd)
        raise error
    return record


def deviations(key: bytes | None, value: bytes | None, reader_of: Dialect | None = None) -> list[Deviation]:
    """Every place where the reader takes what Kafka's writer would not have written like that; [] for its own bytes.

    InvalidRecord for what the reader refuses.

    >>> for odd in deviations(bytes.fromhex("000200016700"), None):
    ...     print(odd)
    byte 5, key: bytes after the end: 1
    """
    rules = reader_of or dialect("new")
    return deviations_of(decode(key, value, rules), key, value, rules)
