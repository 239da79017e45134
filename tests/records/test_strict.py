"""Strict reading: every non-canonical encoding, with its field and position."""

import json

import pytest

import kafkagroups as kg
from tests.captured import rows
from tests.cases import case
from tests.records.judge import bytes_of

ACCEPTED = [row for row in rows("records", "errors.jsonl") if "ok" in row["4.3.1"]]
OFFSET = bytes.fromhex("0001000167000174000000ff")  # type 1, group g, topic t, partition 255


def test_bytes_that_kafka_accepts_but_would_write_differently_are_refused():
    """Bytes left over, another rewrite, or none (errors.jsonl, 4.3.1)."""
    for row in ACCEPTED:
        with case(row["id"]):
            check_strict(*bytes_of(row), row["4.3.1"]["ok"])


def check_strict(key, value, ok):
    """Strict reading refuses what Kafka would rewrite.

    errors.jsonl has no rewrite of keys. A key with U+FFFD in its strings came from bytes that were no UTF-8.
    """
    odd = ok.get("key_left") or ok.get("value_left") or "rewrite_value_hex" in ok or "rewrite_error" in ok
    if not odd and "\ufffd" not in str(ok["key"]):
        assert kg.decode(key, value, strict=True) == kg.decode(key, value)
        return
    with pytest.raises(kg.InvalidRecord) as caught:
        kg.decode(key, value, strict=True)
    error = caught.value
    assert list(error.deviations) == kg.deviations(key, value)
    first = error.deviations[0]
    assert (error.field, error.position) == (first.field, first.position)
    assert error.reason.startswith(first.reason)


ODD = {
    "bytes after the end of key and value": (
        OFFSET + b"\0",
        "0000 0000000000000005 0000 0000000000000009 abcd",
        [("key", 12, "1 byte after the end"), ("value", 20, "2 bytes after the end")],
    ),
    "a long varint, malformed UTF-8, a count with bits that are dropped": (
        OFFSET,
        "0004 0000000000000005 00000001 8200 ff 0000000000000009 8080808070",
        [
            ("value.metadata", 14, "expected 02 for the length, found 82 00"),
            ("value.metadata", 16, "UTF-8"),
            ("value.tagged fields", 25, "expected 00 for the count, found 80 80 80 80 70"),
        ],
    ),
    "tags: one of another size, one out of order, one twice": (
        OFFSET,
        "0004 0000000000000005 00000001 01 0000000000000009 03 0901aa 0011 000000000000000000000000000000ff 0901bb",
        [
            ("value.topicId", 27, "tag 0 comes after tag 9"),
            ("value.topicId", 27, "size is 17 bytes, its field has 16"),
            ("value.tag 9", 45, "is repeated"),
        ],
    ),
    "a tag at its default, with a long number and a long size": (
        OFFSET,
        "0004 0000000000000005 00000001 01 0000000000000009 01 80009000 00000000000000000000000000000000",
        [
            ("value.topicId", 24, "expected 00 for the tag's number, found 80 00"),
            ("value.topicId", 24, "expected 10 for the tag's size, found 90 00"),
            ("value.topicId", 24, "default"),
        ],
    ),
    "tags that no writer may write": (
        OFFSET,
        "0004 0000000000000005 00000001 01 0000000000000009 02 ffffffff0700 ffffffff0f00",
        [("value.tag 2147483647", 24, "expected a tag from 0 to"), ("value.tag -1", 30, "expected a tag from 0 to")],
    ),
    "null as -2, in a member too": (
        bytes.fromhex("000200016d"),
        "0003 0000 00000001 fffe ffff 0000000000000009 00000001 0000 8000 0000 0000 00000001"
        " 00000002 00000000 00000000",
        [
            ("value.protocol", 8, "expected ff ff for null, found ff fe"),
            ("value.members[0].groupInstanceId", 26, "expected ff ff for null, found 80 00"),
        ],
    ),
    "the presence of a tagged struct, and bytes that its field leaves": (
        bytes.fromhex("0005000167 00016d"),
        "0000 00 00 01 01 01 00 00000001 00 01 0008 02 00000007 01 00 00",
        [
            ("value.classicMemberMetadata", 14, "size is 8 bytes, its field has 7"),
            ("value.classicMemberMetadata", 16, "expected 01 for a struct that is present, found 02"),
            ("value", 23, "1 byte after the end"),
        ],
    ),
    "the presence of a struct": (
        bytes.fromhex("0013000167 00016d"),
        "0000 00 00 01 01 00000001 00000000 01 80 01 00",
        [("value.userEndpoint", 15, "expected ff for a struct that is null, found 80")],
    ),
}


@pytest.mark.parametrize(("key", "value", "expected"), ODD.values(), ids=ODD)
def test_every_deviation_has_its_field_and_position(key, value, expected):
    """The order is that of the bytes. The bytes were made by hand from the schemas, the list is that of spans.py."""
    value = bytes.fromhex(value)
    kg.decode(key, value)  # A reader that is not strict accepts them.
    found = kg.deviations(key, value)
    assert [(odd.field, odd.position) for odd in found] == [(field, position) for field, position, _ in expected]
    for odd, (_, _, words) in zip(found, expected, strict=True):
        assert words in odd.reason
    assert sum(len(span.odd) for span in kg.annotate(key, value)) == len(found)


def test_what_the_reader_refuses_has_no_deviations_but_an_error():
    with pytest.raises(kg.InvalidRecord) as caught:
        kg.deviations(OFFSET, b"\0\1")
    assert caught.value.deviations == ()


def test_another_value_version_or_an_unknown_type_is_no_deviation():
    """A value of version 0, which 4.3.1 no longer writes, and a type that it does not know."""
    assert kg.deviations(OFFSET, bytes.fromhex("0000000000000000000500000000000000000009")) == []
    assert kg.deviations(bytes.fromhex("0018ff"), b"\xff") == []


def test_decode_strict_prints_every_deviation(run):
    """One line each on stderr. With --jsonl, the line's "error" has all of them."""
    key, value, expected = ODD["null as -2, in a member too"]
    status, out, err = run("decode", key.hex(), value, "--strict")
    lines = err.splitlines()
    assert (status, out, len(lines)) == (1, "", len(expected))
    for line, (field, position, words) in zip(lines, expected, strict=True):
        assert f"byte {position}, {field}: " in line and words in line
    row = json.dumps({"key_hex": key.hex(), "value_hex": value})
    status, out, err = run("decode", "--jsonl", "--strict", stdin=row)
    for field, position, _ in expected:
        assert f"byte {position}, {field}: " in json.loads(out)["error"]
    assert status == 1 and err.count("\n") == 1 and "(and 1 more)" in err
    status, out, _ = run("decode", key.hex(), value)
    assert status == 0 and "expected ff ff for null" in " ".join(out.split())
