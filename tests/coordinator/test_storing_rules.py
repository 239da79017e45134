"""Who may commit, what a failed append means, and two commits on their way: rows D19 to D25 and E07 to E11.

Sources: Kafka 3.9's GroupCoordinator (GC), GroupMetadataManager (GMM), GroupMetadata (GMD), T at the end: its tests.
"""

import pytest

from kafkagroups.coordinator import Errors, OffsetCommit
from tests.coordinator.conftest import ORDERS, ORDERS_1

APPEND_ERRORS = list(Errors)
GROUP_ERRORS = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
    Errors.REQUEST_TIMED_OUT: Errors.REBALANCE_IN_PROGRESS,
    Errors.MESSAGE_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.RECORD_LIST_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.INVALID_FETCH_SIZE: Errors.UNKNOWN_SERVER_ERROR,
}
COMMIT_ERRORS = {
    Errors.NETWORK_EXCEPTION: Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
    Errors.MESSAGE_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
    Errors.RECORD_LIST_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
    Errors.INVALID_FETCH_SIZE: Errors.INVALID_COMMIT_OFFSET_SIZE,
}


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


@pytest.mark.parametrize("commit", ["commit", "txn_commit"])
def test_a_failed_commit_leaves_nothing(kafka, commit):
    """GMMT.testCommitOffsetFailure, KAFKA-12660: not visible, nothing pending, what was there before stays."""
    kafka.commit("g", 1)
    kafka.logs.append_error = Errors.NOT_ENOUGH_REPLICAS
    getattr(kafka, commit)("g", 2)
    group = kafka.group("g")
    assert (kafka.fetch("g"), kafka.fetch("g", ORDERS, stable=True)) == ({ORDERS: 1}, {ORDERS: 1})
    assert not group.offsets.pending and not group.offsets.transactions
    kafka.logs.append_error = Errors.NONE
    kafka.end()
    assert kafka.fetch("g") == {ORDERS: 1}


def test_an_old_message_format_has_no_transactions(kafka, monkeypatch):
    """GMM.generateOffsetRecords: magic below 2."""
    monkeypatch.setattr(kafka, "magic", lambda partition: 1)
    assert kafka.txn_commit("g", 1).value == {ORDERS: Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT}
    assert kafka.records() == []


def test_a_commit_without_its_partition(kafka, monkeypatch):
    """GMM.storeOffsets and storeGroup: getMagic finds no such partition here."""
    joined = kafka.join("g").value
    monkeypatch.setattr(kafka, "magic", lambda partition: None)
    assert kafka.commit("h", 1).value == {ORDERS: Errors.NOT_COORDINATOR}
    assert kafka.coordinator.sync_group("g", 1, joined.member_id).value.error is Errors.NOT_COORDINATOR


@pytest.mark.parametrize("first", [0, 1])
def test_the_commit_that_stands_later_in_the_log_counts(kafka, first):
    """GMDT.testOffsetCommitWithAnotherPending: whichever of the two appends is answered first."""
    kafka.logs.holds_answers = True
    kafka.commit("g", 1)
    kafka.commit("g", 2)
    kafka.logs.release(first)
    assert kafka.fetch("g") == {ORDERS: first + 1}
    assert kafka.fetch("g", ORDERS, stable=True) == {ORDERS: 2 if first else "UNSTABLE_OFFSET_COMMIT"}
    kafka.logs.release()
    assert kafka.fetch("g", ORDERS, stable=True) == {ORDERS: 2}


@pytest.mark.parametrize(("number", "left"), [(0, 2), (1, 1)])
def test_a_failure_clears_only_what_it_staged(kafka, number, left):
    """GMDT.testOffsetCommitFailureWithAnotherPending: the other commit counts."""
    kafka.logs.holds_answers = True
    kafka.commit("g", 1)
    kafka.commit("g", 2)
    if number == 1:
        kafka.logs.release()
    kafka.logs.release(0, Errors.NOT_ENOUGH_REPLICAS)
    assert bool(kafka.group("g").offsets.pending) == (number == 0)
    if number == 0:
        kafka.logs.release()
    assert (kafka.fetch("g"), kafka.group("g").offsets.pending) == ({ORDERS: left}, {})


def test_a_commit_whose_group_is_dead_when_its_append_is_answered(kafka):
    """GMM.createPutCacheCallback: answered NONE, and the cache does not change."""
    kafka.logs.holds_answers = True
    answer = kafka.commit("g", 1)
    kafka.coordinator.delete_groups(["g"])
    group_is_gone = kafka.group("g") is None
    kafka.logs.release()
    assert (answer.value, group_is_gone, kafka.fetch("g")) == ({ORDERS: Errors.NONE}, True, {})


@pytest.mark.parametrize("generation", [-1, -2])
def test_a_client_that_is_no_member_commits_to_an_empty_group(kafka, generation):
    """GC.validateOffsetCommit; commits 27, 29, 35, 36: any negative generation, but not to a living group."""
    assert kafka.commit("new", 1, generation=generation).value == {ORDERS: Errors.NONE}
    assert kafka.commit("new", 2, generation=generation).value == {ORDERS: Errors.NONE}
    kafka.stable("living")
    assert kafka.commit("living", 1, generation=generation).value == {ORDERS: Errors.UNKNOWN_MEMBER_ID}


def test_a_commit_of_another_generation(kafka):
    """GC.validateOffsetCommit; an unknown group has no generation (22), an Empty one no member (25)."""
    member_id = kafka.stable("g")
    for generation in (0, 2):
        answer = kafka.commit("g", 1, member_id=member_id, generation=generation)
        assert answer.value == {ORDERS: Errors.ILLEGAL_GENERATION}
    assert kafka.commit("g", 1, member_id=member_id, generation=1).value == {ORDERS: Errors.NONE}
    assert kafka.commit("none", 1, member_id="m", generation=0).value == {ORDERS: Errors.ILLEGAL_GENERATION}
    kafka.coordinator.leave_group("g", [member_id])
    assert kafka.commit("g", 1, member_id=member_id, generation=2).value == {ORDERS: Errors.UNKNOWN_MEMBER_ID}


def test_up_to_2_8_an_unknown_instance_id_passes(broker):
    """2.8.2-static 23, 24."""
    kafka = broker("2.8.2")
    member_id = kafka.stable("g", group_instance_id="i")
    answer = kafka.commit("g", 1, member_id=member_id, group_instance_id="other", generation=1)
    assert answer.value == {ORDERS: Errors.NONE}


def test_an_accepted_commit_restarts_the_session(kafka):
    """GC.doCommitOffsets: the session timer restarts."""
    member_id = kafka.stable("g", session_ms=10_000)
    for _ in range(3):
        kafka.clock.advance(9_000)
        kafka.commit("g", 1, member_id=member_id, generation=1)
    assert kafka.state("g") == "Stable"
    kafka.clock.advance(10_000)
    assert kafka.state("g") == "Empty"


def test_too_large_metadata_refuses_its_partition_only(kafka):
    """GMM.storeOffsets: the rest is written; with nothing left, nothing is."""
    offsets = {ORDERS: OffsetCommit(1), ORDERS_1: OffsetCommit(2, "x" * 4097)}
    response = kafka.coordinator.offset_commit("g", offsets).value
    assert response == {ORDERS: Errors.NONE, ORDERS_1: Errors.OFFSET_METADATA_TOO_LARGE}
    assert kafka.records() == [[("orders-0", 1)]]
    kafka.coordinator.offset_commit("g", {ORDERS_1: OffsetCommit(2, "x" * 4097)})
    assert len(kafka.records()) == 1


def test_null_metadata_is_stored_as_an_empty_string(kafka):
    """1.0.1-basic, `simple` pay-ments-0."""
    kafka.coordinator.offset_commit("g", {ORDERS: OffsetCommit(1, None)})
    assert kafka.coordinator.offset_fetch("g").value.offsets[ORDERS].metadata == ""


def test_negative_offsets_are_stored(kafka):
    """FACTS-legacy 1: an answered -1 is not "nothing stored"."""
    kafka.coordinator.offset_commit("g", {ORDERS: OffsetCommit(-1, "neg")})
    there = kafka.coordinator.offset_fetch("g").value.offsets[ORDERS]
    assert (there.offset, there.metadata) == (-1, "neg")


@pytest.mark.parametrize(("version", "error"), [("1.0.1", Errors.NONE), ("3.9.2", Errors.UNSUPPORTED_VERSION)])
def test_version_0_goes_to_zookeeper(broker, version, error):
    """FACTS-legacy 1: no record, no metadata, invisible to version 1. 3.9.2-retention 31, 32: unsupported."""
    kafka = broker(version, zookeeper=version == "1.0.1")
    response = kafka.coordinator.offset_commit_to_zookeeper("g", {ORDERS: OffsetCommit(777, "lost")}).value
    assert (response, kafka.records(), kafka.fetch("g", ORDERS)) == ({ORDERS: error}, [], {ORDERS: -1})
    there = kafka.coordinator.offset_fetch_from_zookeeper("g", [ORDERS]).offsets[ORDERS]
    assert (there.error, there.offset) == (error, -1 if error else 777)


@pytest.mark.parametrize(
    ("version", "found", "knows", "response"),
    [
        ("3.9.2", Errors.TRANSACTION_ABORTABLE, True, Errors.TRANSACTION_ABORTABLE),
        ("3.9.2", Errors.TRANSACTION_ABORTABLE, False, Errors.INVALID_TXN_STATE),
        ("3.9.2", Errors.INVALID_PRODUCER_ID_MAPPING, True, Errors.INVALID_PRODUCER_ID_MAPPING),
        ("2.8.2", Errors.TRANSACTION_ABORTABLE, True, Errors.NONE),
    ],
)
def test_since_3_7_a_transaction_must_be_open(broker, version, found, knows, response):
    """KIP-890; 3.9.2-txnodd 27, 49 against 2.8.2-txnodd 26: refused, and by then the group is there."""
    kafka = broker(version)
    kafka.coordinator.validator.verify = lambda *transaction: found
    assert kafka.txn_commit("g", 1, supports_abortable_error=knows).value == {ORDERS: response}
    assert kafka.listed() == {"g"}


def test_a_pending_commit_counts_by_where_it_stands(kafka):
    """A plain commit between it and its marker wins, one before it loses (FACTS-legacy 4; 3.9.2-txn `between`)."""
    kafka.txn_commit("between", 60)
    kafka.commit("between", 61)
    kafka.commit("before", 60)
    kafka.txn_commit("before", 61)
    assert kafka.fetch("before") == {ORDERS: 60}
    kafka.end()
    assert (kafka.fetch("between"), kafka.fetch("before")) == ({ORDERS: 61}, {ORDERS: 61})


def test_the_first_marker_of_two_producers_does_not_decide(kafka):
    """FACTS-legacy 4, `t-cross`: written first but committed last loses."""
    kafka.txn_commit("cross", 70, producer=7)
    kafka.txn_commit("cross", 80, producer=8)
    kafka.end(8)
    kafka.end(7)
    assert kafka.fetch("cross") == {ORDERS: 80}


def test_mixed_commits_are_warned_of(kafka, caplog):
    """GMM.storeOffsets, hasReceivedConsistentOffsetCommits: from the third commit on."""
    kafka.commit("g", 1)
    kafka.txn_commit("g", 2)
    assert not [line for line in caplog.messages if "transactional producers" in line]
    kafka.commit("g", 3)
    assert [line for line in caplog.messages if "transactional producers" in line]
