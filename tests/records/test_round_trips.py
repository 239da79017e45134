"""Properties of records of every type and version: what is written is read back, and no bytes bring the reader down."""

import json
import os
import re
import struct

import pytest
from hypothesis import given, strategies as st

import kafkagroups as kg
from tests.cases import case, first_quickly
from tests.records.judge import judge
from tests.records.messages import NEWEST, READERS, filled, java_strings, readable, records, sample, with_strings
from tests.records.schema_bytes import record_bytes

LONG = os.environ.get("KG_PROFILE") == "long"
BY_READER = pytest.mark.parametrize(
    "rules", first_quickly(READERS), ids=lambda rules: f"{rules.coordinator}-{rules.kafka}"
)


@BY_READER
@given(data=st.data())
def test_a_record_comes_back_from_its_bytes_and_every_byte_is_annotated(rules, data):
    """decode(encode(r)) = r, strictly too, and the bytes come back from that."""
    record = data.draw(records(rules))
    key, value = kg.encode(record, rules)
    assert judge(key, value, rules) == kg.decode(key, value, rules, strict=True) == record


@given(records(NEWEST))
def test_a_record_is_written_as_kafkas_schemas_say(record):
    """The bytes are those of a second writer, made of schemas.json (4.3.1) alone; the JSON, as text, is read back."""
    shown = kg.to_json(record)
    assert kg.encode(record) == record_bytes(shown)
    assert kg.from_json(json.loads(json.dumps(shown))) == record


@BY_READER
@given(data=st.data())
def test_half_a_surrogate_pair_is_written_as_a_question_mark(rules, data):
    """In any string of any record, as Java's getBytes writes it (utf8.jsonl); what is read then stays."""
    record = data.draw(records(rules, java_strings))
    key, value = kg.encode(record, rules)
    again = kg.decode(key, value, rules, strict=True)
    assert again == kg.Record(
        record.type,
        with_strings(record.key, as_java_writes),
        with_strings(record.value, as_java_writes),
        record.value_version,
    )
    assert kg.encode(again, rules) == (key, value)


def as_java_writes(text):
    """Return a text whose halves of surrogate pairs are pairs, as in UTF-16, or question marks."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return re.sub("[\ud800-\udfff]", "?", whole)


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 126, 127, 16_383])
def test_empty_and_large_arrays_strings_and_bytes_come_back(size):
    """At these sizes a compact length takes one more byte. The writer made of schemas.json writes the same bytes.

    Arrays of 16,383 structs take seconds. The fast profile tries them for every fifth type and version.
    """
    step = 5 if size > 1000 and not LONG else 1
    for kind, cls, version in readable(NEWEST)[::step]:
        with case(f"type {kind.id}, version {version}"):
            record = kg.Record(kind.id, filled(kind.key, 0, NEWEST, size), filled(cls, version, NEWEST, size), version)
            key, value = kg.encode(record, NEWEST)
            assert kg.decode(key, value, NEWEST) == record
            assert (key, value) == record_bytes(kg.to_json(record))


@BY_READER
def test_a_record_cut_short_is_refused(rules):
    """Every proper prefix of a key or a value is an error that names the part. Bytes after the end are ignored."""
    for kind, cls, version in readable(rules):
        with case(f"type {kind.id}, version {version}"):
            check_prefixes(*sample(kind, cls, version, rules), rules)


def check_prefixes(key, value, rules):
    record = kg.decode(key, value, rules)
    key_cuts = [(key[:cut], value) for cut in range(len(key))]
    value_cuts = [(key, value[:cut]) for cut in range(len(value))]
    for part, cuts in (("key", key_cuts), ("value", value_cuts)):
        for pair in cuts:
            with pytest.raises(kg.InvalidRecord) as caught:
                kg.decode(*pair, rules)
            assert caught.value.field.startswith(part) and caught.value.reason
    for pair in ((key + b"\0", value), (key, value + b"\xff\xff")):
        assert kg.decode(*pair, rules) == record
        with pytest.raises(kg.InvalidRecord):
            kg.decode(*pair, rules, strict=True)


@given(
    st.integers(0, 24),
    st.binary(max_size=60),
    st.integers(-1, 5),
    st.binary(max_size=120),
    st.sampled_from(READERS),
)
def test_any_bytes_are_decoded_or_refused(type_id, key, version, value, rules):
    """No bytes raise anything but InvalidRecord, and what is read is written back."""
    judge(struct.pack(">h", type_id) + key, struct.pack(">h", version) + value, rules)


@given(st.integers(-(2**15), 2**15 - 1), st.binary(), st.none() | st.binary())
def test_an_unknown_type_is_kept_and_written_back(type_id, key, value):
    """Its key and value stay the bytes they were; in JSON as hex."""
    if type_id in range(18) or type_id in range(19, 24):
        return
    key = struct.pack(">h", type_id) + key
    record = judge(key, value)
    assert record.name == "Unknown" and record == kg.decode(key, value, strict=True)
    assert kg.from_json(kg.to_json(record)) == record
