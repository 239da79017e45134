"""What is answered from the cache: rows E01 to E05, DescribeGroups and ListGroups.

Sources: Kafka 3.9's GroupMetadataManager (GMM), GroupCoordinator (GC), T at the end: its tests.
"""

import pytest

from kafkagroups.coordinator import Errors, FetchedOffset, OffsetCommit
from tests.coordinator.conftest import CLICKS, ORDERS, ORDERS_1

UNSTABLE = "UNSTABLE_OFFSET_COMMIT"


def test_an_unknown_group_has_no_offsets(kafka):
    """GMM.getOffsets: -1, "", no error for each that is named; of all, none."""
    response = kafka.coordinator.offset_fetch("g", [ORDERS]).value
    assert (response.error, response.offsets) == (Errors.NONE, {ORDERS: FetchedOffset(-1, "", -1, Errors.NONE)})
    assert kafka.fetch("g") == {}


def test_a_pending_transactional_commit_is_unstable(kafka):
    """KAFKA-9346, KIP-447; GCT.testFetchPendingTxnOffsetsWithCommit: offset -1, whatever was committed before."""
    kafka.commit("g", 1, ORDERS, ORDERS_1)
    kafka.txn_commit("g", 2, ORDERS)
    assert kafka.fetch("g", ORDERS, ORDERS_1, CLICKS, stable=True) == {ORDERS: UNSTABLE, ORDERS_1: 1, CLICKS: -1}
    there = kafka.coordinator.offset_fetch("g", [ORDERS], require_stable=True).value.offsets[ORDERS]
    assert (there.offset, there.metadata, there.leader_epoch) == (-1, "", -1)
    kafka.end()
    assert kafka.fetch("g", ORDERS, stable=True) == {ORDERS: 2}


def test_a_plain_commit_on_its_way_is_unstable_too(kafka):
    """GMD.hasPendingOffsetCommitsForTopicPartition."""
    kafka.logs.holds_answers = True
    kafka.commit("g", 1)
    assert kafka.fetch("g", ORDERS, stable=True) == {ORDERS: UNSTABLE}


def test_without_require_stable_the_committed_offset_is_returned(kafka):
    """GCT.testFetchPendingTxnOffsetsWithAbort."""
    kafka.commit("g", 1)
    kafka.txn_commit("g", 2, ORDERS, ORDERS_1)
    assert kafka.fetch("g", ORDERS, ORDERS_1) == {ORDERS: 1, ORDERS_1: -1}
    kafka.end(commits=False)
    assert kafka.fetch("g", ORDERS, ORDERS_1, stable=True) == {ORDERS: 1, ORDERS_1: -1}


def test_all_offsets_are_those_that_are_committed(kafka):
    """GCT.testFetchAllOffsets; 3.9.2-txn 7, 170 against 171: what is only pending is not mentioned."""
    kafka.commit("g", 1)
    kafka.txn_commit("g", 2, ORDERS, ORDERS_1)
    assert kafka.fetch("g") == {ORDERS: 1}
    assert kafka.fetch("g", stable=True) == {ORDERS: UNSTABLE}


def test_a_commit_without_a_leader_epoch(kafka):
    """KIP-320: -1 on the wire; the one that was given otherwise."""
    kafka.coordinator.offset_commit("g", {ORDERS: OffsetCommit(1), ORDERS_1: OffsetCommit(1, leader_epoch=5)})
    response = kafka.coordinator.offset_fetch("g").value.offsets
    assert (response[ORDERS].leader_epoch, response[ORDERS_1].leader_epoch) == (-1, 5)


def test_fetching_does_not_read_the_log(kafka, monkeypatch):
    """GMM.getOffsets: the cache alone answers."""
    kafka.commit("g", 1)
    monkeypatch.setattr(kafka, "read", lambda partition: pytest.fail("the log was read"))
    assert kafka.fetch("g") == {ORDERS: 1}


def test_only_a_stable_group_tells_its_protocol(kafka):
    """GMD.summary: metadata and assignments in Stable, else empty (states)."""
    joined = kafka.join("g").value
    (response,) = kafka.coordinator.describe_groups(["g"])
    assert (response.state, response.protocol, response.protocol_type) == ("CompletingRebalance", "", "consumer")
    assert [(each.metadata, each.assignment) for each in response.members] == [(b"", b"")]
    kafka.coordinator.sync_group("g", 1, joined.member_id, {joined.member_id: b"mine"})
    (response,) = kafka.coordinator.describe_groups(["g"])
    assert (response.state, response.protocol) == ("Stable", "range")
    assert [each.assignment for each in response.members] == [b"mine"]


def test_1_0_calls_it_awaiting_sync(broker):
    """1.0.1-states: AwaitingSync became CompletingRebalance in 1.1."""
    kafka = broker("1.0.1")
    kafka.join("g")
    assert kafka.state("g") == "AwaitingSync"


def test_an_unknown_group_is_described_as_dead(kafka):
    """GC.handleDescribeGroup: with no error."""
    (response,) = kafka.coordinator.describe_groups(["none"])
    assert (response.error, response.state, response.members) == (Errors.NONE, "Dead", ())


def test_groups_are_listed_by_state_and_type(kafka):
    """KIP-518, KIP-848; 3.9.2-states: states whatever their case (KAFKA-14509), all of type classic."""
    kafka.commit("simple", 1)
    kafka.stable("living")

    def listed(states=(), types=()):
        return {each.group_id for each in kafka.coordinator.list_groups(states, types)[1]}

    assert listed() == {"simple", "living"}
    assert listed(["Empty"]) == {"simple"} and listed(["stable"]) == {"living"} and listed(["Nonsense"]) == set()
    assert listed(types=["Classic"]) == {"simple", "living"} and listed(types=["consumer"]) == set()
