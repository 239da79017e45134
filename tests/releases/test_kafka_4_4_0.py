"""Kafka 4.4.0: its records and the limits of its readers. Its runs are in tests/groups/test_load_runs.py."""

import os
from collections import Counter

import pytest

import kafkagroups as kg
from tests.captured import captured, rows
from tests.cases import case
from tests.handmade import START, TRANSACTIONAL, LogRecord, encode_batch, write_segment
from tests.records.judge import bytes_of, judge

LONG = os.environ.get("KG_PROFILE") == "long"
LONG_VALUE_BYTES = 2_000_000
NEW = kg.dialect("new", "4.4.0")
OLD = kg.dialect("new", "4.3.1")


def test_4_3_1_keeps_the_new_fields_as_unknown_tags():
    """It does not show them, and writes them back."""
    seen = 0
    for row in rows("v440", "v440/vectors.jsonl"):
        if "4.3.1" in row:
            with case(row["id"]):
                key, value = bytes_of(row)
                record = kg.decode(key, value, OLD)
                shown = kg.to_json(record, OLD)["value"]["data"]
                assert len(shown.pop("_unknownTaggedFields")) == row["4.3.1"]["ok"]["unknown_tags_kept"]
                assert shown == row["4.3.1"]["ok"]["value"]
                assert kg.encode(record, OLD) == (key, value)
                seen += 1
    assert seen > 10


def read_limits(accepted):
    """Yield the release and the row of each answer that accepts the row's record, or else of each refusal."""
    for name in ("reader_differences.jsonl", "limits.jsonl"):
        for row in (row for row in rows("v440", f"v440/{name}") if "key_hex" in row):
            for kafka in ("4.3.1", "4.4.0"):
                if ("error" not in row[kafka]) == accepted:
                    yield kafka, row


def test_4_4_0_limits_arrays_and_tags(tmp_path, run):
    """At most 1,000,000 elements and 10,000 tags, and no negative number of tags. 4.3.1 has no limits.

    The dump tool's text for a record that 4.4.0 refuses contains the message of 4.4.0's exception.
    """
    refusals = Counter()
    for kafka, row in read_limits(accepted=False):
        with case(f"{row['id']}, {kafka}"):
            key, value = bytes_of(row)
            rules = kg.dialect("new", kafka)
            with pytest.raises(kg.InvalidRecord):
                kg.decode(key, value, rules)
            assert judge(key, value, rules) is None
            if kafka == "4.4.0":
                log = write_segment(tmp_path, encode_batch([LogRecord(0, START, key, value)]))
                _, out, _ = run("dump", log, "--format", "dump-log", "--kafka", kafka)
                assert out.endswith(f" key: Error at offset 0, skipping. {row[kafka]['error']['message']}\n")
            refusals[kafka] += 1
    assert refusals["4.4.0"] > refusals["4.3.1"] > 0


@pytest.mark.slow
def test_what_is_within_the_limits_is_read():
    """To read a million elements takes seconds, so only the long profile reads the longest values."""
    for kafka, row in read_limits(accepted=True):
        with case(f"{row['id']}, {kafka}"):
            key, value = bytes_of(row)
            if LONG or len(value) < LONG_VALUE_BYTES:
                kg.decode(key, value, kg.dialect("new", kafka))


@pytest.mark.parametrize(
    ("kafka", "older", "kind", "field", "value"),
    [
        ("4.4.0", "4.3.1", 17, "storedDescriptionTopologyEpoch", 5),
        ("4.4.0", "4.3.1", 17, "failedDescriptionTopologyEpoch", 0),
        ("4.2.0", "4.1.2", 17, "validatedTopologyEpoch", 1),
        ("4.1.0", "4.0.2", 11, "metadataHash", 7),
        ("4.3.0", "4.2.1", 6, "assignmentTimestamp", 7),
    ],
)
def test_encode_refuses_a_field_that_the_release_does_not_have(kafka, older, kind, field, value):
    """Its default is accepted, because the older release means the same without the field."""
    first = "assignmentEpoch" if kind == 6 else "epoch"
    data = {first: 1, "metadataHash": 0} if kind != 6 else {first: 1}
    shown = {"key": {"type": kind, "data": {"groupId": "g"}}, "value": {"version": 0, "data": data | {field: value}}}
    newer = kg.dialect("new", kafka)
    record = kg.from_json(shown, newer)
    assert kg.decode(*kg.encode(record, newer), newer) == record
    rules = kg.dialect("new", older)
    for call in (lambda: kg.from_json(shown, rules), lambda: kg.encode(record, rules)):
        with pytest.raises(kg.UsageError, match=f"{field}: Kafka {older} has no such field"):
            call()
    shown["value"]["data"] = data
    kg.encode(kg.from_json(shown, rules), rules)


def test_encode_refuses_a_field_of_a_later_value_version():
    """2.1 brought the leader epoch, with value version 3. 3.9's writers drop it silently in version 1."""
    data = {"offset": 1, "leaderEpoch": 5, "metadata": "", "commitTimestamp": 1, "expireTimestamp": -1}
    key = {"type": 1, "data": {"group": "g", "topic": "t", "partition": 0}}
    shown = {"key": key, "value": {"version": 1, "data": data}}
    assert kg.encode(kg.from_json(shown, kg.dialect("classic", "3.9.2")))
    with pytest.raises(kg.UsageError, match=r"leaderEpoch: Kafka 1\.0\.1 has no such field"):
        kg.from_json(shown, kg.dialect("classic", "1.0.1"))


def test_only_4_4_0_writes_these_records(tmp_path):
    """The new tags of type 17, and a topic id in a transactional commit. 4.1 to 4.3 write it in plain commits only."""

    def written_by(record, **header):
        log = write_segment(tmp_path, encode_batch([LogRecord(0, START, *kg.encode(record, NEW))], **header))
        return kg.stats(log, kafka="4.4.0").partitions[0].written_by

    streams = {"epoch": 1, "metadataHash": 0, "storedDescriptionTopologyEpoch": 5}
    shown = {"key": {"type": 17, "data": {"groupId": "g"}}, "value": {"version": 0, "data": streams}}
    assert written_by(kg.from_json(shown, NEW)) == "4.4 – "
    commit = {"offset": 1, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1, "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}
    key = {"type": 1, "data": {"group": "g", "topic": "t", "partition": 0}}
    record = kg.from_json({"key": key, "value": {"version": 4, "data": commit}})
    assert written_by(record, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0) == "4.4 – "
    assert written_by(record) == "4.1 – "
    folder = captured("v440") / "v440" / "runs" / "4.4.0-txn44" / "log"
    assert "4.4 – " in {partition.written_by for partition in kg.stats(folder).partitions.values()}
