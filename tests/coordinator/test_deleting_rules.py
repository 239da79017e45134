"""What expires, what is deleted, and which tombstones say so: the rows D of the rules that are easily got wrong.

Sources: Kafka 3.9's GroupMetadataManager (GMM), GroupMetadata (GMD), GroupCoordinator (GC), T at the end: its tests.
"""

import pytest

from kafkagroups.coordinator import Errors, OffsetCommit, Settings
from tests.coordinator.conftest import CLICKS, ORDERS, ORDERS_1

MINUTE = 60_000


def offsets_of(group, *partitions, **member):
    return {each: OffsetCommit(n + 1) for n, each in enumerate(partitions)}


def sweep(kafka):
    return kafka.coordinator.manager.delete_expired()


def batches(kafka):
    return list(kafka.read(0))


def test_an_expired_offset_is_deleted_and_a_younger_one_stays(kafka):
    """GMMT.testExpireOffset: retentions of 1 and 3 ms, 2 ms later one tombstone; the group stays."""
    kafka.coordinator.offset_commit("g", {ORDERS: OffsetCommit(37)}, retention_ms=1)
    kafka.coordinator.offset_commit("g", {ORDERS_1: OffsetCommit(37)}, retention_ms=3)
    kafka.clock.advance(2)
    assert sweep(kafka) == 1
    assert (kafka.fetch("g", ORDERS, ORDERS_1), kafka.listed()) == ({ORDERS: -1, ORDERS_1: 37}, {"g"})
    assert kafka.records()[-1] == [("orders-0", None)]


def test_an_empty_group_without_offsets_gets_one_tombstone(kafka):
    """GMMT.testGroupMetadataRemoval: of its group record, CREATE_TIME, a timestamp, the current magic."""
    kafka.coordinator.leave_group("g", [kafka.stable("g")])
    assert sweep(kafka) == 0
    last = batches(kafka)[-1]
    assert (last.magic, last.timestamp_type, last.max_timestamp) == (2, "CreateTime", kafka.clock.now_ms)
    assert (kafka.records()[-1], kafka.listed()) == ([("g", None)], set())


def test_without_a_state_timestamp_the_commit_time_counts(broker):
    """GMD.removeExpiredOffsets: an old group record does not tell since when the group is Empty."""
    kafka = broker(offsets_retention_ms=MINUTE)
    member_id = kafka.stable("g")
    kafka.commit("g", 1, member_id=member_id, generation=1)
    kafka.clock.advance(MINUTE)
    kafka.coordinator.leave_group("g", [member_id])
    assert sweep(kafka) == 0
    kafka.group("g").state_timestamp = None
    assert sweep(kafka) == 1


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_nothing_expires_while_a_group_rebalances(broker, state):
    """KAFKA-13636, GMD.removeExpiredOffsets."""
    kafka = broker(offsets_retention_ms=MINUTE)
    member_id = kafka.stable("g", topics=("clicks",), session_ms=30 * MINUTE, rebalance_ms=30 * MINUTE)
    kafka.commit("g", 1, member_id=member_id, generation=1)
    kafka.join("g", member_id if state == "CompletingRebalance" else "", topics=("clicks",))
    assert kafka.state("g") == state
    kafka.clock.advance(MINUTE)
    assert sweep(kafka) == 0


def test_nothing_expires_of_a_living_group_that_is_no_consumer_group(broker):
    """GMD.removeExpiredOffsets, its last case: a "connect" group."""
    kafka = broker(offsets_retention_ms=MINUTE)
    member_id = kafka.stable("g", protocol_type="connect", session_ms=30 * MINUTE)
    kafka.commit("g", 1, member_id=member_id, generation=1)
    kafka.clock.advance(2 * MINUTE)
    assert (sweep(kafka), kafka.state("g")) == (0, "Stable")


def test_an_offset_with_a_plain_commit_on_its_way_stays(broker):
    """GMD.removeExpiredOffsets: pendingOffsetCommits."""
    kafka = broker(offsets_retention_ms=MINUTE)
    kafka.commit("g", 1, ORDERS, ORDERS_1)
    kafka.clock.advance(MINUTE)
    kafka.logs.holds_answers = True
    kafka.commit("g", 2)
    assert (sweep(kafka), kafka.fetch("g")) == (1, {ORDERS: 1})


def test_a_sweep_leaves_pending_transactional_commits_alone(broker):
    """GMD.removeExpiredOffsets takes committed offsets only, other than removeOffsets: the marker brings one back."""
    kafka = broker(offsets_retention_ms=MINUTE)
    kafka.commit("g", 1)
    kafka.txn_commit("g", 2)
    kafka.clock.advance(MINUTE)
    assert (sweep(kafka), kafka.fetch("g"), kafka.listed()) == (1, {}, {"g"})
    kafka.end()
    assert kafka.fetch("g") == {ORDERS: 2}


def test_the_longest_retention_does_not_overflow(broker):
    """GCT.testOffsetsRetentionMsIntegerOverflow: Integer.MAX_VALUE minutes."""
    kafka = broker(offsets_retention_ms=(2**31 - 1) * MINUTE)
    kafka.commit("g", 1)
    kafka.clock.advance(365 * 24 * 60 * MINUTE)
    assert sweep(kafka) == 0
    assert Settings(offsets_retention_ms=(2**31 - 1) * MINUTE).offsets_retention_ms == 128_849_018_820_000


@pytest.mark.parametrize(("version", "lines"), [("1.0.1", 2), ("3.9.2", 1)])
def test_a_sweep_says_what_it_removed(broker, caplog, version, lines):
    """Offsets are counted, not group tombstones; 1.0.1 says it also of none (FACTS-legacy 2)."""
    kafka = broker(version, offsets_retention_ms=MINUTE)
    kafka.coordinator.offset_commit("g", offsets_of("g", ORDERS, ORDERS_1))
    kafka.clock.advance(MINUTE + 1)
    with caplog.at_level("INFO", "kafkagroups.coordinator"):
        sweep(kafka)
        sweep(kafka)
    said = [line for line in caplog.messages if line.startswith("Removed")]
    assert said == [f"Removed {n} expired offsets in 0 milliseconds." for n in (2, 0)][:lines]


def test_sweeps_come_every_interval(broker):
    """offsets.retention.check.interval.ms; GMM.startup."""
    kafka = broker(offsets_retention_ms=MINUTE, offsets_retention_check_interval_ms=10 * MINUTE)
    kafka.coordinator.start_expiration()
    kafka.clock.advance(MINUTE)
    kafka.commit("g", 1)
    kafka.clock.advance(9 * MINUTE)
    assert kafka.fetch("g") == {ORDERS: 1}
    kafka.clock.advance(MINUTE)
    assert kafka.fetch("g") == {}


def test_a_deleted_group_gets_all_its_tombstones_in_one_batch(kafka):
    """GCT.testDeleteEmptyGroupWithStoredOffsets; the group's tombstone is the last one."""
    member_id = kafka.stable("g")
    kafka.commit("g", 1, ORDERS, ORDERS_1, member_id=member_id, generation=1)
    kafka.coordinator.leave_group("g", [member_id])
    assert kafka.coordinator.delete_groups(["g"]).value == {"g": Errors.NONE}
    *offsets, group = kafka.records()[-1]
    assert (sorted(offsets), group) == ([("orders-0", None), ("orders-1", None)], ("g", None))
    assert kafka.state("g") == "Dead"


def test_only_an_empty_group_can_be_deleted(kafka):
    """GC.handleDeleteGroups; GCT.testDeleteNonEmptyGroup, testDeleteGroupWithInvalidGroupId."""
    kafka.stable("living")
    kafka.commit("empty", 1)
    response = kafka.coordinator.delete_groups(["living", "unknown", "empty", "empty"]).value
    assert response == {
        "living": Errors.NON_EMPTY_GROUP,
        "unknown": Errors.GROUP_ID_NOT_FOUND,
        "empty": Errors.NONE,
    }
    assert kafka.coordinator.delete_groups(["empty"]).value == {"empty": Errors.GROUP_ID_NOT_FOUND}


def test_offsets_of_topics_that_are_read_cannot_be_deleted(kafka):
    """KIP-496; GCT.testDeleteOffsetOfStableConsumerGroup: others can, in the same request."""
    member_id = kafka.stable("g", topics=("orders",))
    kafka.commit("g", 1, ORDERS, CLICKS, member_id=member_id, generation=1)
    response = kafka.coordinator.offset_delete("g", [ORDERS, CLICKS]).value
    assert response.partitions == {ORDERS: Errors.GROUP_SUBSCRIBED_TO_TOPIC, CLICKS: Errors.NONE}
    assert (kafka.fetch("g"), kafka.records()[-1]) == ({ORDERS: 1}, [("clicks-0", None)])


def test_a_partition_that_is_named_twice_has_two_tombstones_in_4(kafka, new_kafka):
    """OffsetMetadataManager.deleteOffsets (4.3.1) looks at each named partition; GMD.removeOffsets (3.9) removes it."""
    for broker, tombstones in ((kafka, 1), (new_kafka, 2)):
        broker.commit("g", 1, ORDERS, CLICKS)
        assert broker.coordinator.offset_delete("g", [ORDERS, ORDERS]).value.partitions == {ORDERS: Errors.NONE}
        assert broker.records()[-1] == [("orders-0", None)] * tombstones


def test_an_unreadable_subscription_reads_every_topic(kafka):
    """GCT.testDeleteOffsetOfConsumerGroupWithUnparsableProtocol."""
    member_id = kafka.stable("g", protocols=[("range", b"\x00")])
    kafka.commit("g", 1, member_id=member_id, generation=1)
    response = kafka.coordinator.offset_delete("g", [ORDERS, CLICKS]).value.partitions
    assert set(response.values()) == {Errors.GROUP_SUBSCRIBED_TO_TOPIC}


def test_what_is_only_pending_gets_no_tombstone(kafka):
    """GMD.removeOffsets; the new coordinator of 4.x writes one (OMMT.testDeleteGroupAllOffsetsWithPending...)."""
    kafka.commit("g", 1, ORDERS)
    kafka.txn_commit("g", 2, ORDERS, ORDERS_1)
    kafka.coordinator.delete_groups(["g"])
    assert kafka.records()[-1] == [("orders-0", None)]


def test_offsets_of_a_deleted_topic_go_from_every_group(kafka):
    """GC.handleDeletedPartitions; topicdel: also of a living group that reads it, which stays."""
    member_id = kafka.stable("living", topics=("clicks",))
    kafka.commit("living", 1, CLICKS, member_id=member_id, generation=1)
    kafka.commit("simple", 2, CLICKS)
    kafka.commit("other", 3, ORDERS)
    assert kafka.coordinator.partitions_deleted([CLICKS]) == 2
    assert (kafka.fetch("living"), kafka.state("living"), kafka.state("simple")) == ({}, "Stable", "Dead")
    assert kafka.fetch("other") == {ORDERS: 3}
    assert sorted(map(str, kafka.records()[-2:])) == ["[('clicks-0', None)]"] * 2


def test_an_offset_with_an_expire_timestamp_says_so_in_its_value(broker):
    """Value version 1 with an explicit retention, 3 else (FACTS-legacy 5); 1.0.1 always 1, the default filled in."""
    kafka = broker()
    kafka.coordinator.offset_commit("g", {ORDERS: OffsetCommit(1)}, retention_ms=MINUTE)
    kafka.commit("g", 1, ORDERS_1)
    committed = kafka.group("g").offsets.committed
    there = committed[ORDERS]
    assert there.expire_timestamp == there.commit_timestamp + MINUTE
    assert committed[ORDERS_1].expire_timestamp is None
    versions = [record.value[:2] for batch in batches(kafka) for record in batch.records]
    assert versions == [b"\x00\x01", b"\x00\x03"]
