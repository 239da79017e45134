"""Rules of the classic coordinator that the golden scripts (tests/golden) do not show.

Sources: Kafka 3.9's GroupCoordinator (GC), GroupMetadata (GMD), GroupMetadataManager (GMM), T at the end: its tests.
"""

import pytest
from msgspec.structs import replace

from kafkagroups.coordinator import Errors, OffsetCommit, Settings
from tests.coordinator.conftest import CLICKS, ORDERS

MINUTE = 60_000
APPEND_ERRORS = list(Errors)
LOG_ERRORS = {
    **dict.fromkeys(
        (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.NOT_ENOUGH_REPLICAS, Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        Errors.COORDINATOR_NOT_AVAILABLE,
    ),
    **dict.fromkeys((Errors.NOT_LEADER_OR_FOLLOWER, Errors.KAFKA_STORAGE_ERROR), Errors.NOT_COORDINATOR),
}
"""What a client is answered for an error of the append, for a group's record and for a commit."""
TOO_LARGE = (Errors.MESSAGE_TOO_LARGE, Errors.RECORD_LIST_TOO_LARGE, Errors.INVALID_FETCH_SIZE)
GROUP_ERRORS = {Errors.REQUEST_TIMED_OUT: Errors.REBALANCE_IN_PROGRESS}
GROUP_ERRORS |= LOG_ERRORS | dict.fromkeys(TOO_LARGE, Errors.UNKNOWN_SERVER_ERROR)
COMMIT_ERRORS = {Errors.NETWORK_EXCEPTION: Errors.COORDINATOR_LOAD_IN_PROGRESS}
COMMIT_ERRORS |= LOG_ERRORS | dict.fromkeys(TOO_LARGE, Errors.INVALID_COMMIT_OFFSET_SIZE)


@pytest.mark.parametrize("error", APPEND_ERRORS[2:], ids=lambda error: error.name)
def test_a_group_record_that_fails(kafka, error):
    """GMMT.testStoreGroupErrorMapping, GMM.storeGroup: what the leader's Sync is answered; other errors as they are."""
    joined = kafka.join("g").value
    kafka.logs.append_error = error
    answer = kafka.coordinator.sync_group("g", 1, joined.member_id, {joined.member_id: b"mine"})
    assert answer.value.error is GROUP_ERRORS.get(error, error)
    assert (kafka.state("g"), kafka.records()) == ("PreparingRebalance", [])


@pytest.mark.parametrize("error", APPEND_ERRORS[2:], ids=lambda error: error.name)
def test_a_commit_that_fails(kafka, error):
    """GMM.maybeConvertOffsetCommitError; GMMT.testCommitOffsetFailure."""
    kafka.logs.append_error = error
    expected = {ORDERS: COMMIT_ERRORS.get(error, error)}
    assert kafka.commit("g", 1).value == expected
    assert kafka.txn_commit("h", 1).value == expected


def test_null_metadata_is_stored_as_an_empty_string(kafka):
    """1.0.1-basic, `simple` pay-ments-0."""
    kafka.coordinator.offset_commit("g", {ORDERS: OffsetCommit(1, None)})
    assert kafka.coordinator.offset_fetch("g").value.offsets[ORDERS].metadata == ""


@pytest.mark.parametrize(("version", "error"), [("1.0.1", Errors.NONE), ("3.9.2", Errors.UNSUPPORTED_VERSION)])
def test_version_0_goes_to_zookeeper(broker, version, error):
    """No record, no metadata, invisible to version 1. 3.9.2-retention 31, 32: unsupported."""
    kafka = broker(version, zookeeper=version == "1.0.1")
    response = kafka.coordinator.offset_commit_to_zookeeper("g", {ORDERS: OffsetCommit(777, "lost")}).value
    assert (response, kafka.records(), kafka.fetch("g", ORDERS)) == ({ORDERS: error}, [], {ORDERS: -1})
    there = kafka.coordinator.offset_fetch_from_zookeeper("g", [ORDERS]).offsets[ORDERS]
    assert (there.error, there.offset) == (error, -1 if error else 777)


def test_a_member_may_sync_in_the_callback_of_its_join(kafka):
    """Its SyncGroup is sent while the joins are being answered: it has synced, and does not time out later."""
    leader = kafka.stable("g", session_ms=60_000)
    joining = kafka.join("g", session_ms=60_000)
    syncs = []
    joining.then(lambda result: syncs.append(kafka.coordinator.sync_group("g", 2, result.member_id)))
    kafka.join("g", leader, session_ms=60_000)
    kafka.coordinator.sync_group("g", 2, leader, {})
    kafka.clock.advance(30_000)
    assert (syncs[0].done, kafka.state("g"), kafka.group("g").generation) == (True, "Stable", 2)


def test_an_empty_group_without_offsets_gets_one_tombstone(kafka):
    """GMMT.testGroupMetadataRemoval: of its group record, CREATE_TIME, a timestamp, the current magic."""
    kafka.coordinator.leave_group("g", [kafka.stable("g")])
    assert kafka.coordinator.manager.delete_expired() == 0
    last = list(kafka.read(0))[-1]
    assert (last.magic, last.timestamp_type, last.max_timestamp) == (2, "CreateTime", kafka.clock.now_ms)
    assert (kafka.records()[-1], kafka.listed()) == ([("g", None)], set())


def test_without_a_state_timestamp_the_commit_time_counts(broker):
    """GMD.removeExpiredOffsets: an old group record does not tell since when the group is Empty."""
    kafka = broker(offsets_retention_ms=MINUTE)
    member_id = kafka.stable("g")
    kafka.commit("g", 1, member_id=member_id, generation=1)
    kafka.clock.advance(MINUTE)
    kafka.coordinator.leave_group("g", [member_id])
    assert kafka.coordinator.manager.delete_expired() == 0
    kafka.group("g").current_state_timestamp = None
    assert kafka.coordinator.manager.delete_expired() == 1


def test_the_longest_retention_does_not_overflow(broker):
    """GCT.testOffsetsRetentionMsIntegerOverflow: Integer.MAX_VALUE minutes."""
    kafka = broker(offsets_retention_ms=(2**31 - 1) * MINUTE)
    kafka.commit("g", 1)
    kafka.clock.advance(365 * 24 * 60 * MINUTE)
    assert kafka.coordinator.manager.delete_expired() == 0
    assert Settings(offsets_retention_ms=(2**31 - 1) * MINUTE).offsets_retention_ms == 128_849_018_820_000


def test_a_partition_that_is_named_twice_has_two_tombstones_in_4(kafka, new_kafka):
    """OffsetMetadataManager.deleteOffsets (4.3.1) looks at each named partition; GMD.removeOffsets (3.9) removes it."""
    for broker, tombstones in ((kafka, 1), (new_kafka, 2)):
        broker.commit("g", 1, ORDERS, CLICKS)
        assert broker.coordinator.offset_delete("g", [ORDERS, ORDERS]).value.partitions == {ORDERS: Errors.NONE}
        assert broker.records()[-1] == [("orders-0", None)] * tombstones


@pytest.mark.parametrize("version", ["1.0.1", "2.8.2", "3.9.2"])
def test_a_retention_time_beyond_64_bits(broker, version):
    """Java's sum wraps around, so the offset has expired long ago."""
    kafka = broker(version)
    kafka.commit("g", 1, retention_ms=2**63 - 1)
    (offset,) = kafka.group("g").offsets.committed.values()
    assert offset.expire_timestamp == kafka.clock.now_ms + 2**63 - 1 - 2**64
    kafka.start()
    assert list(kafka.group("g").offsets.committed.values()) == [replace(offset, record_offset=offset.batch_offset)]
    kafka.coordinator.manager.delete_expired()
    assert kafka.fetch("g") == {}


def test_the_generation_after_the_last_one(kafka):
    """Java's int wraps around."""
    kafka.stable("g")
    kafka.group("g").generation = 2**31 - 1
    assert kafka.join("g", kafka.group("g").leader).value.generation == -(2**31)
