"""Rules that changed between versions. Each one is shown on the smallest log, and comes from Kafka's source tags."""

import re

import pytest

import kafkagroups as kg
from tests.handmade import (
    CONTROL,
    TRANSACTIONAL,
    CompressionType,
    LogRecord,
    compress,
    encode_batch,
    message,
    read_batches,
)


def value(version, **fields):
    return {"version": str(version), "data": fields}


def commit(offset, version=1, topic="t", **fields):
    body = {"offset": offset, "metadata": "", "commitTimestamp": 1} | fields
    if version == 1:
        body.setdefault("expireTimestamp", -1)
    return {
        "key": {"type": "1", "data": {"group": "g", "topic": topic, "partition": 0}},
        "value": value(version, **body),
    }


def group(version, protocol="range", leader="m", members=()):
    body = {
        "protocolType": "consumer",
        "generation": 3,
        "protocol": protocol,
        "leader": leader,
        "members": list(members),
    }
    return {"key": {"type": "2", "data": {"group": "g"}}, "value": value(version, **body)}


def member(name, instance=None):
    fields = {"memberId": name, "clientId": "c", "clientHost": "/h", "sessionTimeout": 10, "rebalanceTimeout": -1}
    return fields | {"subscription": "", "assignment": "", "groupInstanceId": instance}


def load(tmp_path, batches, coordinator, kafka):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir(exist_ok=True)
    data = b""
    offset = 0
    for records, header in batches:
        pairs = [kg.encode(kg.from_json(record)) if isinstance(record, dict) else record for record in records]
        logged = [LogRecord(offset + i, 1, *pair) for i, pair in enumerate(pairs)]
        if not logged:
            header = header | {"base_offset": offset, "last_offset": offset, "base_timestamp": 1, "max_timestamp": 1}
        data += encode_batch(logged, **header)
        offset += max(1, len(logged))
    (folder / "00000000000000000000.log").write_bytes(data)
    groups = kg.load(folder, coordinator=coordinator, kafka=kafka)
    return groups, groups.partitions[0].error


@pytest.mark.parametrize(
    ("record", "readable"),
    [
        (commit(1, 1), ["0.9.0.1", "1.0.1", "2.0.1", "3.9.2"]),
        (commit(1, 3, leaderEpoch=1), ["2.1.0", "2.8.2", "3.9.2"]),
        (commit(1, 4, leaderEpoch=1), ["3.4.1", "3.9.2"]),
        (group(0), ["0.9.0.1", "0.10.0.1", "1.0.1", "3.9.2"]),
        (group(1), ["0.10.1.0", "1.0.1", "3.9.2"]),
        (
            group(2) | {"value": value(2, **group(2)["value"]["data"], currentStateTimestamp=1)},
            ["2.1.0", "2.2.2", "3.9.2"],
        ),
        (group(3) | {"value": value(3, **group(3)["value"]["data"], currentStateTimestamp=1)}, ["2.3.0", "3.9.2"]),
        ((b"\x00\x03\x00\x01g", b""), ["3.4.1", "3.9.2"]),
    ],
)
def test_a_classic_coordinator_reads_the_versions_of_its_time(record, readable, tmp_path):
    """A newer value version or record type fails the load. From 3.4.1 on, unknown record types are skipped."""
    versions = [
        "0.8.2.2",
        "0.9.0.1",
        "0.10.0.1",
        "0.10.1.0",
        "1.0.1",
        "2.0.1",
        "2.1.0",
        "2.1.1",
        "2.2.2",
        "2.3.0",
        "2.8.2",
        "3.3.0",
        "3.4.1",
        "3.9.2",
    ]
    first = versions.index(readable[0])
    for kafka in versions:
        error = load(tmp_path, [([record], {})], "classic", kafka)[1]
        assert (error is None) == (versions.index(kafka) >= first), kafka


def test_a_group_without_members_lost_its_protocol_type_from_0_10_1_to_1_0_0(tmp_path):
    """GroupMetadata.loadGroup, which keeps it, came with 1.0.1; a 0.10.2.2 broker answered ""."""
    for kafka, expected in (("0.10.1.0", ""), ("0.10.2.2", ""), ("0.11.0.2", ""), ("1.0.0", ""), ("1.0.1", "consumer")):
        groups, _ = load(tmp_path, [([group(1, None, None)], {})], "classic", kafka)
        assert groups["g"].protocol_type == expected, kafka


def test_before_0_10_1_a_group_record_had_a_protocol_and_a_leader(tmp_path):
    for kafka, fails in (("0.9.0.1", True), ("0.10.0.1", True), ("0.10.1.0", False)):
        assert bool(load(tmp_path, [([group(0, None, None)], {})], "classic", kafka)[1]) == fails


def test_an_emptied_control_batch_kills_the_load_before_2_0_1(tmp_path):
    """`batch.iterator.next()` without `hasNext` up to 2.0.0."""
    batches = [([commit(5)], {}), ([], {"attributes": CONTROL | TRANSACTIONAL, "producer_id": 1, "producer_epoch": 0})]
    for kafka, fails in (("0.11.0.2", True), ("2.0.0", True), ("2.0.1", False), ("3.9.2", False)):
        assert bool(load(tmp_path, batches, "classic", kafka)[1]) == fails, kafka
    assert load(tmp_path, batches, "new", None)[1] is None


def test_before_0_10_1_offsets_went_straight_into_the_cache(tmp_path):
    """So a failed load keeps the offsets before the failure. From 0.9 on, offsets without a group are orphans."""
    batches = [([commit(5)], {}), ([(b"\x00\x09", b"")], {})]
    groups, error = load(tmp_path, batches, "classic", "0.9.0.1")
    assert error and not groups and groups.orphans["g"].offsets[kg.TopicPartition("t", 0)].offset == 5
    groups, error = load(tmp_path, batches, "classic", "1.0.1")
    assert error and not groups and not groups.orphans


def test_members_that_stand_twice(tmp_path):
    """From 3.0 on, two members with one instance id fail the load. From 2.1 on, a member after a duplicate one does."""
    static = group(3, members=[member("a", "i"), member("b", "i")])
    static["value"]["data"]["currentStateTimestamp"] = 1
    for kafka, fails in (("2.3.1", False), ("2.8.2", False), ("3.0.0", True), ("3.9.2", True)):
        assert bool(load(tmp_path, [([static], {})], "classic", kafka)[1]) == fails, kafka
    twice = group(1, members=[member("a"), member("a"), member("b")])
    for kafka, fails in (("1.0.1", False), ("2.0.1", False), ("2.1.0", True), ("3.9.2", True)):
        assert bool(load(tmp_path, [([twice], {})], "classic", kafka)[1]) == fails, kafka
    assert load(tmp_path, [([twice], {})], "new", None)[1] and load(tmp_path, [([static], {})], "new", None)[1]


def test_an_unknown_rebalance_timeout_is_the_sessions(tmp_path):
    """-1 stays under the classic coordinator (except in value version 0). The new one uses the session timeout."""
    batches = [([group(1, members=[member("a")])], {})]
    assert load(tmp_path, batches, "classic", None)[0]["g"].members["a"].rebalance_timeout_ms == -1
    assert load(tmp_path, batches, "new", None)[0]["g"].members["a"].rebalance_timeout_ms == 10
    batches = [([group(0, members=[member("a")])], {})]
    assert load(tmp_path, batches, "classic", None)[0]["g"].members["a"].rebalance_timeout_ms == 10


def unload(tmp_path, deleted, pending, kafka=None):
    """Return the error of a load with tombstones of groups, and with pending commits of some of them."""

    def key(kind, name, **more):
        return {"key": {"type": kind, "data": {"group": name} | more}}

    tombs = [key("2", name) | {"value": None} for name in deleted]
    commits = [key("1", name, topic="t", partition=0) | {"value": commit(1)["value"]} for name in pending]
    batches = [(tombs, {}), (commits, {"attributes": TRANSACTIONAL, "producer_id": 1, "producer_epoch": 0})]
    return load(tmp_path, batches, "classic", kafka)[1]


def test_the_reason_of_a_failed_load_is_one_line_and_always_the_same(tmp_path):
    """The error quotes the name of the first group that has a tombstone and a pending commit."""
    names = [f"g{i}\n" for i in range(5)]
    assert unload(tmp_path, names, names) == r"Unexpected unload of active group 'g0\n'"


def test_a_wrapper_of_magic_1_as_kafka_reads_it():
    """AbstractLegacyRecordBatch: offset 0 means unset; an offset below the inner ones, and zstd, are refused."""

    def offsets(outer, inner, codec=CompressionType.GZIP):
        (batch,) = read_batches(message(outer, None, compress(codec, inner), codec))
        return [record.offset for record in batch.records]

    pair = message(0, None, b"a") + message(1, None, b"b")
    assert offsets(11, pair) == [10, 11] and offsets(0, pair) == [0, 1] and offsets(1, pair) == [0, 1]
    assert offsets(10, pair[:-3]) == [10], "a message that is not whole is left out"
    for outer, inner, codec in (
        (1, message(0, None, b"a") + message(7, None, b"b"), CompressionType.GZIP),
        (9, pair, CompressionType.ZSTD),
    ):
        with pytest.raises(kg.InvalidLog):
            offsets(outer, inner, codec)


@pytest.mark.parametrize(
    ("kafka", "numbers"),
    [
        ("3.9.2", "10 12 11 7 6 9 8 3 18 2 17 5 4 19 14 13 1 16 0 15"),
        ("1.0.1", "2 19 3 4 12 5 13 14 15 6 16 0 7 8 10 9 17 1 11 18"),
    ],
)
def test_a_hash_set_has_the_order_of_scala(kafka, numbers, tmp_path):
    """The groups in a set of 20, as scala-library 2.13.18 and 2.11.12 iterate over it, up to a pending commit."""
    groups = [f"group-{number}" for number in numbers.split()]
    for first in range(20):
        error = unload(tmp_path, sorted(groups), sorted(groups[first:]), kafka)
        assert error == f"Unexpected unload of active group '{groups[first]}'"


@pytest.mark.parametrize(
    ("kafka", "twelve", "thirteen"),
    [
        ("1.0.1", [1, 4, 6, 9, 0, 3, 11, 2, 10, 5, 8, 7], [1, 4, 12, 6, 0, 9, 3, 11, 2, 5, 10, 8, 7]),
        ("2.8.2", [5, 6, 3, 4, 9, 11, 10, 7, 8, 1, 2, 0], [5, 6, 3, 4, 12, 9, 11, 10, 7, 8, 1, 2, 0]),
    ],
)
def test_members_stand_in_the_order_of_scalas_hash_map(kafka, twelve, thirteen, tmp_path, run):
    """What mutable.HashMap of scala-library 2.11.12 and 2.13.5 gave for these keys, before and after it grew.

    The consumer's formatter prints a group's members in this order.
    """
    for order in (twelve, thirteen):
        members = [member(f"member-{number}") for number in range(len(order))]
        load(tmp_path, [([group(1, members=members)], {})], "classic", kafka)
        _, out, _ = run("dump", tmp_path, "--format", "formatter", "--kafka", kafka)
        assert re.findall(r"member-(\d+) ->", out) == [str(number) for number in order]
