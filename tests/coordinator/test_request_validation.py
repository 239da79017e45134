"""Who may ask, and whom: authorisation, loading and unloading.

Sources: Kafka 3.9's GroupCoordinator (GC), GroupMetadataManager (GMM), KafkaApis, T at the end: their tests.
"""

import pytest

from kafkagroups.coordinator import Errors
from tests.coordinator.conftest import ORDERS, ORDERS_1
from tests.coordinator.test_versions import READS


def asked(kafka, group="g"):
    """The error of each request about a group."""
    it = kafka.coordinator
    return {
        "JoinGroup": it.join_group(group, protocols=READS).value.error,
        "SyncGroup": it.sync_group(group, 1, "m").value.error,
        "Heartbeat": it.heartbeat(group, 1, "m").value,
        "LeaveGroup": it.leave_group(group, ["m"]).value.error,
        "OffsetCommit": kafka.commit(group, 1).value[ORDERS],
        "TxnOffsetCommit": kafka.txn_commit(group, 1).value[ORDERS],
        "OffsetFetch": it.offset_fetch(group).value.error,
        "DescribeGroups": it.describe_groups([group])[0].error,
        "DeleteGroups": it.delete_groups([group]).value[group],
        "OffsetDelete": it.offset_delete(group, [ORDERS]).value.error,
    }


def test_the_empty_group_id(kafka):
    """GC.isValidGroupId: what was committed under it long ago can be fetched, committed, described and deleted."""
    refused = {"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "TxnOffsetCommit", "OffsetDelete"}
    response = asked(kafka, "")
    assert {api for api, error in response.items() if error is Errors.INVALID_GROUP_ID} == refused
    assert {error for api, error in response.items() if api not in refused} == {Errors.NONE}


def test_unloading_sends_everybody_away(kafka, caplog):
    """GC.onGroupUnloaded: hanging requests are answered NOT_COORDINATOR; the line counts offsets and groups."""
    member_id = kafka.stable("g")
    kafka.commit("g", 1, ORDERS, ORDERS_1, member_id=member_id, generation=1)
    joining = kafka.join("g")
    awaited = kafka.join("h").value.member_id
    kafka.join("h")
    with caplog.at_level("INFO", "kafkagroups.coordinator"):
        kafka.coordinator.resign(0)
    assert joining.value.error is Errors.NOT_COORDINATOR
    assert awaited and kafka.groups() == []
    assert caplog.messages[-1].endswith("Removed 2 cached offsets and 2 cached groups.")


def test_a_client_that_may_not(kafka):
    """KafkaApis: the operation on the group comes first, and says nothing of the group."""
    kafka.coordinator.validator.authorize = lambda operation, kind, name: kind != "GROUP"
    response = asked(kafka)
    assert set(response.values()) == {Errors.GROUP_AUTHORIZATION_FAILED}
    assert kafka.listed() == set()


@pytest.mark.parametrize(
    ("api", "operation"),
    [
        *((api, "READ") for api in ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit")),
        *((api, "DESCRIBE") for api in ("OffsetFetch", "DescribeGroups")),
        *((api, "DELETE") for api in ("DeleteGroups", "OffsetDelete")),
        ("TxnOffsetCommit", "READ"),
    ],
)
def test_which_operation_a_request_needs(kafka, api, operation):
    """KafkaApis (3.9): READ, DESCRIBE or DELETE on the group."""
    kafka.coordinator.validator.authorize = lambda asked, kind, name: kind != "GROUP" or asked == operation
    assert asked(kafka)[api] is not Errors.GROUP_AUTHORIZATION_FAILED
    kafka.coordinator.validator.authorize = lambda asked, kind, name: kind != "GROUP" or asked != operation
    assert asked(kafka)[api] is Errors.GROUP_AUTHORIZATION_FAILED


def test_topics_that_a_client_may_not_see(kafka):
    """KafkaApis: each partition has its error, the others are served; of all topics they are left out."""
    kafka.commit("g", 1)
    kafka.coordinator.validator.authorize = lambda operation, kind, name: name != "orders"
    assert kafka.commit("g", 2, ORDERS).value == {ORDERS: Errors.TOPIC_AUTHORIZATION_FAILED}
    assert kafka.fetch("g", ORDERS) == {ORDERS: "TOPIC_AUTHORIZATION_FAILED"}
    assert kafka.fetch("g") == {}
