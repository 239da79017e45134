"""Properties of records: what is written is read back, and no bytes bring the reader down."""

import json
import struct

import pytest
from hypothesis import given, strategies as st

import kafkagroups as kg
from kafkagroups.records.fields import TaggedField
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from tests.captured import rows

names = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
uuids = st.binary(min_size=16, max_size=16).map(lambda data: kg.records.text.uuid_text(data))
tags = st.lists(st.integers(1, 2**31 - 2), unique=True, max_size=3).flatmap(
    lambda numbers: st.tuples(*(st.binary(max_size=9).map(lambda d, n=n: TaggedField(n, d)) for n in sorted(numbers)))
)


@st.composite
def offset_commits(draw):
    version = draw(st.integers(0, 4))
    fields = {"offset": draw(int64), "metadata": draw(names), "commit_timestamp": draw(int64)}
    if version >= 3:
        fields["leader_epoch"] = draw(int32)
    if version == 1:
        fields["expire_timestamp"] = draw(int64)
    if version == 4:
        fields |= {"topic_id": draw(uuids), "unknown_tagged_fields": draw(tags)}
    return kg.Record(1, OffsetCommitKey(draw(names), draw(names), draw(int32)), OffsetCommitValue(**fields), version)


@st.composite
def group_metadata(draw):
    version = draw(st.integers(0, 4))
    unknown = tags if version == 4 else st.just(())

    def member():
        fields = {"member_id": draw(names), "client_id": draw(names), "client_host": draw(names)}
        fields |= {"session_timeout": draw(int32), "subscription": draw(st.binary()), "assignment": draw(st.binary())}
        if version >= 1:
            fields["rebalance_timeout"] = draw(int32)
        if version >= 3:
            fields["group_instance_id"] = draw(st.none() | names)
        return MemberMetadata(**fields, unknown_tagged_fields=draw(unknown))

    fields = {"protocol_type": draw(names), "generation": draw(int32)}
    fields |= {"protocol": draw(st.none() | names), "leader": draw(st.none() | names)}
    if version >= 2:
        fields["current_state_timestamp"] = draw(int64)
    members = tuple(member() for _ in range(draw(st.integers(0, 3))))
    value = GroupMetadataValue(**fields, members=members, unknown_tagged_fields=draw(unknown))
    return kg.Record(2, GroupMetadataKey(draw(names)), value, version)


records = offset_commits() | group_metadata()


@given(records)
def test_a_record_comes_back_from_its_bytes_and_from_its_json(record):
    """decode(encode(r)) = r, also strictly, and from_json(to_json(r)) = r."""
    assert kg.decode(*kg.encode(record), strict=True) == record
    assert kg.from_json(json.loads(json.dumps(kg.to_json(record)))) == record


@given(records, st.binary(min_size=1, max_size=5), st.binary(min_size=1, max_size=5))
def test_bytes_after_the_end_are_ignored_and_strictly_refused(record, after_key, after_value):
    """A broker reads a key or a value and does not look further."""
    key, value = kg.encode(record)
    assert kg.decode(key + after_key, value + after_value) == record
    for pair in ((key + after_key, value), (key, value + after_value)):
        with pytest.raises(kg.InvalidRecord):
            kg.decode(*pair, strict=True)


@given(records, st.data())
def test_a_record_cut_short_is_refused(record, data):
    """Every proper prefix of a key or a value is an error that names the field."""
    key, value = kg.encode(record)
    cut = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(kg.InvalidRecord) as caught:
        kg.decode(key, value[:cut])
    assert caught.value.field.startswith("value")
    with pytest.raises(kg.InvalidRecord):
        kg.decode(key[: data.draw(st.integers(0, len(key) - 1))], value)


@given(st.integers(0, 2), st.binary(max_size=60), st.integers(-1, 5), st.binary(max_size=120))
def test_any_bytes_are_decoded_or_refused(type_id, key, version, value):
    """No bytes raise anything but InvalidRecord, and what is decoded twice is equal."""
    key, value = struct.pack(">h", type_id) + key, struct.pack(">h", version) + value
    try:
        record = kg.decode(key, value)
    except kg.InvalidRecord:
        return
    try:
        again = kg.decode(*kg.encode(record))
    except kg.UsageError:
        return  # tags that no writer may write
    assert again == record


@pytest.mark.parametrize("name", ["01_OffsetCommit_v4", "02_GroupMetadata_v3", "02_GroupMetadata_v4"])
def test_a_vector_cut_at_every_byte_is_refused_and_flipped_never_surprises(name):
    """Captured bytes, cut and flipped: InvalidRecord or a record, nothing else."""
    shortest = min(rows("vectors", f"vectors/{name}.jsonl"), key=lambda row: len(row["value_hex"]))
    key, value = bytes.fromhex(shortest["key_hex"]), bytes.fromhex(shortest["value_hex"])
    for cut in range(len(value)):
        with pytest.raises(kg.InvalidRecord):
            kg.decode(key, value[:cut])
    for bit in range(8 * len(value)):
        flipped = bytearray(value)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            kg.to_json(kg.decode(key, bytes(flipped)))
        except kg.InvalidRecord as error:
            assert error.reason


def test_huge_counts_fail_at_once():
    """A count or length of two billion is refused by the bytes that are left, before anything is made."""
    key = kg.encode(kg.Record(2, GroupMetadataKey("g"), None, None))[0]
    members = struct.pack(">hhihhqi", 2, 0, 1, -1, -1, 0, 2**31 - 1)
    with pytest.raises(kg.InvalidRecord, match="2147483647"):
        kg.decode(key, members)
    name = struct.pack(">hh", 3, 0x7FFF)
    with pytest.raises(kg.InvalidRecord, match="32767"):
        kg.decode(key, name)


@given(st.integers(3, 2**15 - 1) | st.integers(-(2**15), -1), st.binary(), st.none() | st.binary())
def test_a_type_that_nobody_knows_is_kept_and_written_back(type_id, key, value):
    """Its key and value stay the bytes they were; in JSON as hex."""
    if type_id in range(3, 24):
        return
    key = struct.pack(">h", type_id) + key
    record = kg.decode(key, value)
    assert record.name == "Unknown" and kg.encode(record) == (key, value)
    assert kg.from_json(kg.to_json(record)) == record


@given(st.text(st.characters(), max_size=20))
def test_lone_halves_are_written_as_question_marks_and_pairs_as_one(text):
    """What Java's getBytes does, against a model that walks the UTF-16 units."""
    from kafkagroups.records.text import encode_utf8

    units = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    out, i = b"", 0
    while i < len(units):
        high = 0xD800 <= units[i] < 0xDC00
        if high and i + 1 < len(units) and 0xDC00 <= units[i + 1] < 0xE000:
            out += chr(0x10000 + (units[i] - 0xD800 << 10) + units[i + 1] - 0xDC00).encode()
            i += 2
        else:
            out += b"?" if 0xD800 <= units[i] < 0xE000 else chr(units[i]).encode()
            i += 1
    assert encode_utf8(text) == out
