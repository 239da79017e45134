"""What must hold for any bytes of a record: they are refused, or read, annotated and written back."""

import kafkagroups as kg


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
    assert sum(span.end - span.start for span in spans) == len(key) + len(value or b"")
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
