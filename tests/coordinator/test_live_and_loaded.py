"""Where Kafka's classic coordinator knows something else than the next one, which loads its log.

Each difference is Kafka's, seen in a recorded conversation or run, or read in its source; docs/live-and-loaded.md has
the list. The stateful test holds live and loaded equal except for these.
"""

import pytest

from kafkagroups.coordinator import Errors, NewBatch, OffsetCommit
from tests.coordinator.conftest import ORDERS, ORDERS_1
from tests.coordinator.world import subscription


def test_a_group_that_wrote_nothing_is_gone(kafka):
    """A refused join leaves an Empty group until the next start (3.9.2-refusals 5, 10, 11)."""
    assert kafka.join("g", protocols=[]).value.error is Errors.INCONSISTENT_GROUP_PROTOCOL
    assert (kafka.listed(), kafka.records()) == ({"g"}, [])
    kafka.start()
    assert kafka.listed() == set()


def test_since_when_a_group_is_stable(kafka):
    """The record is written before the group is Stable, so it tells the time of CompletingRebalance (doSyncGroup)."""
    joined = kafka.join("g").value
    kafka.clock.advance(500)
    kafka.coordinator.sync_group("g", 1, joined.member_id, {})
    assert kafka.group("g").current_state_timestamp == kafka.clock.now_ms
    kafka.start()
    assert kafka.group("g").current_state_timestamp == kafka.clock.now_ms - 500


@pytest.mark.parametrize("version", ["1.0.1", "2.8.2", "3.9.2"])
def test_a_group_with_only_aborted_commits_is_gone(broker, version):
    """Listed Empty until the next sweep or start (txn, `only-aborted`; runs/README-modern, mid)."""
    kafka = broker(version)
    kafka.txn_commit("only-aborted", 5)
    kafka.end(commits=False)
    assert (kafka.state("only-aborted"), kafka.listed()) == ("Empty", {"only-aborted"})
    kafka.start()
    assert (kafka.state("only-aborted"), kafka.listed()) == ("Dead", set())


def test_a_group_record_that_failed_though_it_is_in_the_log_counts_later(kafka):
    """The leader's Sync was answered with an error and everybody starts over; a load is Stable (doSyncGroup)."""
    joined = kafka.join("g").value
    kafka.logs.holds_answers = True
    answer = kafka.coordinator.sync_group("g", 1, joined.member_id, {joined.member_id: b"mine"})
    kafka.logs.release(0, Errors.REQUEST_TIMED_OUT)
    assert (answer.value.error, kafka.state("g")) == (Errors.REBALANCE_IN_PROGRESS, "PreparingRebalance")
    kafka.start()
    assert kafka.state("g") == "Stable"


def test_a_failed_commit_takes_an_earlier_one_of_its_transaction_with_it(kafka):
    """failPendingTxnOffsetCommit forgets the partition whatever waits there; a load finds the earlier one."""
    kafka.txn_commit("g", 1)
    kafka.logs.append_error = Errors.NOT_ENOUGH_REPLICAS
    assert kafka.txn_commit("g", 2).value == {ORDERS: Errors.COORDINATOR_NOT_AVAILABLE}
    kafka.end()
    assert kafka.fetch("g") == {}
    kafka.start()
    assert kafka.fetch("g") == {ORDERS: 1}


def test_tombstones_that_could_not_be_appended(kafka):
    """No request waits for them (acks 0): what was deleted is back after the next start (cleanupGroupMetadata)."""
    kafka.commit("g", 1)
    kafka.logs.append_error = Errors.NOT_ENOUGH_REPLICAS
    assert kafka.coordinator.delete_groups(["g"]).value == {"g": Errors.NONE}
    assert kafka.fetch("g") == {}
    kafka.start()
    assert kafka.fetch("g") == {ORDERS: 1}


def test_a_failed_commit_takes_an_earlier_one_in_flight_with_it(kafka):
    """onOffsetCommitAppend counts what is still pending, and failPendingOffsetWrite of the later one ended that."""
    kafka.commit("g", 5)
    kafka.logs.holds_answers = True
    earlier = kafka.commit("g", 6)
    kafka.logs.append_error = Errors.NOT_ENOUGH_REPLICAS
    later = kafka.commit("g", 7)
    kafka.logs.release(0)
    assert later.value == {ORDERS: Errors.COORDINATOR_NOT_AVAILABLE}
    assert earlier.value == {ORDERS: Errors.NONE}
    assert kafka.fetch("g") == {ORDERS: 5}
    kafka.start()
    assert kafka.fetch("g") == {ORDERS: 6}


def test_a_too_large_commit_stays_pending_until_the_next_load(broker):
    """Up to 3.7 storeOffsets prepares it and nothing takes it back: unstable, never expired, the group never dies."""
    kafka = broker("2.8.2", offsets_retention_ms=60_000)
    kafka.commit("g", 1, ORDERS_1)
    kafka.coordinator.offset_commit("g", {ORDERS: OffsetCommit(5), ORDERS_1: OffsetCommit(6, "x" * 4097)})
    assert kafka.fetch("g", ORDERS, ORDERS_1, stable=True) == {ORDERS: 5, ORDERS_1: "UNSTABLE_OFFSET_COMMIT"}
    kafka.clock.advance(600_000)
    kafka.coordinator.manager.delete_expired()
    assert (kafka.state("g"), kafka.fetch("g")) == ("Empty", {ORDERS_1: 1})
    kafka.start()
    assert kafka.fetch("g", ORDERS_1, stable=True) == {ORDERS_1: 1}
    kafka.coordinator.manager.delete_expired()
    assert (kafka.state("g"), kafka.listed()) == ("Dead", set())


@pytest.mark.parametrize("loaded", [False, True])
def test_a_member_supports_the_chosen_protocol_only(kafka, loaded):
    """An unchanged follower is answered immediately, but rebalances when it was loaded (readGroupMessageValue)."""
    both = [(name, subscription("orders")) for name in ("range", "roundrobin")]
    leader = kafka.join("g", protocols=both).value.member_id
    second = kafka.join("g", protocols=both)
    kafka.join("g", leader, protocols=both)
    follower = second.value.member_id
    generation = second.value.generation
    kafka.coordinator.sync_group("g", generation, leader, {})
    assert kafka.state("g") == "Stable"
    if loaded:
        kafka.start()
    assert kafka.join("g", follower, protocols=both).done is not loaded
    assert kafka.state("g") == ("PreparingRebalance" if loaded else "Stable")


def test_a_load_that_fails_leaves_nothing_in_the_cache(kafka):
    """GMM.doLoadGroupsAndOffsets fills the cache after the last batch, so a record that cannot be read prevents it."""
    kafka.commit("g", 1)
    unreadable = (b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", b"\x00")
    kafka.logs.logs.append(0, NewBatch([unreadable], kafka.clock.now_ms), lambda error, offset: None)
    kafka.coordinator.resign(0)
    kafka.elect(1)
    assert (kafka.fetch("g", ORDERS), kafka.listed()) == ({ORDERS: -1}, set())
