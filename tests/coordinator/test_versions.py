"""What older coordinators do otherwise, and what happens at the edges of two requests.

Sources: Kafka's GroupCoordinator (GC), GroupMetadata (GMD), GroupMetadataManager (GMM), KafkaApis (KA), by tag.
"""

import pytest

from kafkagroups import UsageError, course
from kafkagroups.coordinator import Clock, Errors, OffsetCommit, Settings, start_broker
from tests.coordinator.conftest import ORDERS, ORDERS_1, subscription

READS = [("range", subscription("orders"))]


@pytest.mark.parametrize(("version", "is_pending"), [("2.8.2", True), ("3.9.2", False)])
def test_an_id_that_is_refused_for_the_groups_size(broker, version, is_pending):
    """GMD.remove: up to 2.8 it stays pending, later it is forgotten."""
    kafka = broker(version, group_max_size=1, group_initial_rebalance_delay_ms=1_000)
    join = kafka.coordinator.join_group
    first, second = (join("g", protocols=READS).value.member_id for _ in range(2))
    join("g", protocols=READS, member_id=first)
    assert join("g", protocols=READS, member_id=second).value.error is Errors.GROUP_MAX_SIZE_REACHED
    assert (second in kafka.group("g").pending_members) is is_pending
    ((_, response),) = kafka.coordinator.leave_group("g", [second]).value.members
    assert response is (Errors.NONE if is_pending else Errors.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", ["2.8.2", "3.9.2"])
def test_a_pending_id_is_no_static_members(broker, version):
    """GC.doCurrentMemberJoinGroup, 2.8.2 doJoinGroup: an IllegalStateException, and nothing changes."""
    kafka = broker(version)
    pending = kafka.coordinator.join_group("g", protocols=READS).value.member_id
    response = kafka.coordinator.join_group("g", protocols=READS, member_id=pending, group_instance_id="i").value
    assert (response.error, response.member_id, response.generation) == (Errors.UNKNOWN_SERVER_ERROR, "", -1)
    group = kafka.group("g")
    assert (list(group.pending_members), group.members, group.static_members) == ([pending], {}, {})


def test_no_member_is_static_before_2_3(broker):
    """KIP-345: an instance id is a field that 1.0.1 does not know."""
    kafka = broker("1.0.1")
    kafka.stable("g", group_instance_id="i")
    assert kafka.group("g").static_members == {}


def test_version_0_takes_no_long_metadata(broker):
    """KA.handleOffsetCommitRequest (1.0.1): too much of it, and nothing goes to ZooKeeper."""
    kafka = broker("1.0.1", zookeeper=True)
    response = kafka.coordinator.offset_commit_to_zookeeper("g", {ORDERS: OffsetCommit(5, "m" * 4097)}).value
    assert response == {ORDERS: Errors.OFFSET_METADATA_TOO_LARGE}
    assert kafka.coordinator.offset_fetch_from_zookeeper("g", [ORDERS]).offsets[ORDERS].offset == -1


def test_version_0_fetches_what_exists_and_may_be_seen(broker):
    """KA.handleOffsetFetchRequest (1.0.1): a topic that is gone has no offset, one that is hidden tells none."""
    kafka = broker("1.0.1", zookeeper=True)
    coordinator = kafka.coordinator
    coordinator.offset_commit_to_zookeeper("g", {ORDERS: OffsetCommit(5)})
    coordinator.validator.authorize = lambda operation, kind, name: kind != "TOPIC"
    response = coordinator.offset_fetch_from_zookeeper("g", [ORDERS]).offsets[ORDERS]
    assert (response.offset, response.error) == (-1, Errors.TOPIC_AUTHORIZATION_FAILED)
    coordinator.validator.authorize = lambda operation, kind, name: True
    coordinator.validator.topics = {}
    response = coordinator.offset_fetch_from_zookeeper("g", [ORDERS]).offsets[ORDERS]
    assert (response.offset, response.error) == (-1, Errors.UNKNOWN_TOPIC_OR_PARTITION)


def test_an_unload_leaves_a_static_members_join_to_its_append(kafka):
    """GC.onGroupUnloaded: in Stable only SyncGroups are answered."""
    kafka.stable("g", group_instance_id="i")
    kafka.logs.holds_answers = True
    answer = kafka.join("g", group_instance_id="i")
    kafka.coordinator.resign(0)
    assert not answer.done
    kafka.logs.release(0)
    assert answer.value.error is Errors.NONE


def test_a_static_member_that_was_replaced_twice_is_not_put_back(kafka):
    """GMD.replaceStaticMember: the id of the first replacement is gone when its append fails; the second one stands."""
    kafka.stable("g", group_instance_id="i")
    kafka.logs.holds_answers = True
    first, second = (kafka.join("g", group_instance_id="i") for _ in range(2))
    assert first.value.error is Errors.FENCED_INSTANCE_ID
    kafka.logs.release(0, Errors.NOT_ENOUGH_REPLICAS)
    kafka.logs.release(0)
    assert not second.done
    assert list(kafka.group("g").members) == [kafka.group("g").static_members["i"]]


def test_before_2_5_a_transactional_commit_without_a_producer_is_a_plain_one(broker):
    """GC.doCommitOffsets (1.0.1): only a producer id spares the checks of a member."""
    kafka = broker("1.0.1")
    joined = kafka.join("g").value
    assert kafka.txn_commit("g", 1, producer=-1).value == {ORDERS: Errors.REBALANCE_IN_PROGRESS}
    kafka.coordinator.sync_group("g", joined.generation, joined.member_id, {joined.member_id: b""})
    assert kafka.txn_commit("g", 1, producer=-1).value == {ORDERS: Errors.UNKNOWN_MEMBER_ID}
    assert kafka.txn_commit("g", 1, ORDERS_1).value == {ORDERS_1: Errors.NONE}


def test_a_client_without_authorization_gets_no_generation(broker):
    """KA.handleJoinGroupRequest (1.0.1): -1 there, 0 in the coordinator's own refusals."""
    kafka = broker("1.0.1")
    refused = kafka.coordinator.join_group("g", protocols=READS, member_id="nobody").value
    assert (refused.error, refused.generation) == (Errors.UNKNOWN_MEMBER_ID, 0)
    kafka.coordinator.validator.authorize = lambda operation, kind, name: kind != "GROUP"
    refused = kafka.coordinator.join_group("g", protocols=READS).value
    assert (refused.error, refused.generation) == (Errors.GROUP_AUTHORIZATION_FAILED, -1)


def test_what_a_failed_append_did_not_delete_is_not_counted(kafka):
    """GMM.cleanupGroupMetadata: offsetsRemoved grows only behind the append."""
    kafka.commit("g", 5, ORDERS, ORDERS_1)
    kafka.logs.append_error = Errors.KAFKA_STORAGE_ERROR
    assert kafka.coordinator.manager.delete_offsets_and_empty_groups([kafka.group("g")], lambda group: [ORDERS]) == 0
    kafka.logs.append_error = Errors.NONE
    assert kafka.coordinator.manager.delete_offsets_and_empty_groups([kafka.group("g")], lambda group: [ORDERS_1]) == 1


@pytest.mark.parametrize("version", ["2.3.1", "0.11.0", "2.8", "3.9.1", "4.3.0", "three"])
def test_a_version_whose_rules_were_not_checked_is_refused(version):
    """2.3.1 writes no group record when a static member is replaced, for example; the others follow other rules."""
    with pytest.raises(UsageError, match=r"not checked against a broker; use 1\.0\.1, 2\.8\.2, 3\.9\.2, 4\.3\.1 or"):
        Settings(version)


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("1.0.1", Errors.NONE),
        ("2.8.2", Errors.INVALID_PRODUCER_EPOCH),
        ("3.9.2", Errors.INVALID_PRODUCER_EPOCH),
    ],
)
def test_every_broker_fences_an_old_producer_epoch_by_the_same_rule(tmp_path, version, error):
    """The logs of a lesson, of the other scripts and of a broker; 1.0.1-txnodd, 2.8.2-txnodd, 3.9.2-txnodd."""
    settings = Settings(version)
    coordinators = [start_broker(tmp_path / "log", Clock(0), settings), course.start_broker(kafka=version)]
    for coordinator in coordinators:
        answers = [
            coordinator.txn_offset_commit(
                "g", {ORDERS: OffsetCommit(5)}, transactional_id="t", producer_id=7, producer_epoch=epoch
            )
            for epoch in (1, 0)
        ]
        assert [answer.value[ORDERS] for answer in answers] == [Errors.NONE, error]
