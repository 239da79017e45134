"""What must hold for any bytes of a record: they are refused properly, or read, told and written back stably."""

import kafkagroups as kg


def judge(key, value, rules=None):
    """A record, or None for what is refused. AssertionError, or whatever the reader raises wrongly."""
    try:
        record = kg.decode(key, value, rules)
    except kg.InvalidRecord as error:
        assert error.field and error.reason
        try:
            kg.annotate(key, value, rules)
        except kg.InvalidRecord:
            return None
        raise AssertionError("annotate took what decode refuses") from error
    spans = kg.annotate(key, value, rules)
    assert sum(span.end - span.start for span in spans) == len(key) + len(value or b"")
    is_odd = any(span.odd for span in spans)
    try:
        written = kg.encode(record, rules)
    except kg.UsageError:
        assert is_odd  # as `rewrite_error` in errors.jsonl: tags that no writer may write
        return record
    assert (written != (key, value)) == is_odd
    assert kg.decode(*written, rules, strict=True) == record
    return record
