"""What must hold for any bytes of a record: they are refused, or read, annotated and written back."""

from itertools import pairwise

import kafkagroups as kg


def bytes_of(row):
    """Return the key and the value of a captured row. A long value has parts: hex digits, or hex digits and a count."""
    key, value = (None if row.get(name) is None else bytes.fromhex(row[name]) for name in ("key_hex", "value_hex"))
    if "value_parts" in row:
        parts = [part if isinstance(part, str) else part[0] * part[1] for part in row["value_parts"]]
        value = bytes.fromhex("".join(parts))
    return key, value


def judge(key, value, rules=None):
    """Return the record, or None if the bytes are refused. Any other exception is a bug."""
    try:
        record = kg.decode(key, value, rules)
    except kg.InvalidRecord as error:
        assert error.field and error.reason
        try:
            kg.annotate(key, value, rules)
        except kg.InvalidRecord:
            return None
        raise AssertionError("annotate accepted what decode refuses") from error
    spans = kg.annotate(key, value, rules)
    assert_covered(spans, key, value)
    is_odd = any(span.odd for span in spans)
    try:
        written = kg.encode(record, rules)
    except kg.UsageError:
        # These are tags that no writer may write, as `rewrite_error` in errors.jsonl.
        assert is_odd
        return record
    assert (written != (key, value)) == is_odd
    assert kg.decode(*written, rules, strict=True) == record
    return record


def assert_covered(spans, key, value):
    """The spans of each part lie end to end and have all of its bytes."""
    for part, data in (("key", key), ("value", value or b"")):
        mine = [span for span in spans if span.part == part]
        assert all(span.end == following.start for span, following in pairwise(mine))
        assert (mine[0].start, mine[-1].end) == (0, len(data)) if mine else not data
