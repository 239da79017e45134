"""The APIs of a conversation: each API's handler, and the response fields of each version.

The JSON has the form that Kafka's own generated classes write. In every version, fields have the names of the newest
version, and bytes are base64 text. A response has only the fields that exist in its version.
Source: the request and response schemas of 3.9, KafkaApis.scala.
"""

from __future__ import annotations

from typing import Any

from kafkagroups.coordinator import GroupCoordinator
from kafkagroups.replay.admin_requests import consumer_group_describe, delete_groups, describe_groups, list_groups
from kafkagroups.replay.json_values import Json
from kafkagroups.replay.member_requests import (
    consumer_group_heartbeat,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from kafkagroups.replay.offset_requests import offset_commit, offset_delete, offset_fetch, txn_offset_commit
from kafkagroups.replay.request import Handler, Reply, Request

HANDLERS: dict[str, Handler] = {
    "JoinGroup": join_group,
    "SyncGroup": sync_group,
    "Heartbeat": heartbeat,
    "LeaveGroup": leave_group,
    "OffsetCommit": offset_commit,
    "TxnOffsetCommit": txn_offset_commit,
    "OffsetFetch": offset_fetch,
    "DescribeGroups": describe_groups,
    "ListGroups": list_groups,
    "DeleteGroups": delete_groups,
    "OffsetDelete": offset_delete,
    "ConsumerGroupHeartbeat": consumer_group_heartbeat,
    "ConsumerGroupDescribe": consumer_group_describe,
}
FIRST_VERSION_BY_API_AND_FIELD: dict[str, dict[str, int]] = {
    "JoinGroup": {"throttleTimeMs": 2, "groupInstanceId": 5, "protocolType": 7, "skipAssignment": 9},
    "SyncGroup": {"throttleTimeMs": 1, "protocolType": 5, "protocolName": 5},
    "Heartbeat": {"throttleTimeMs": 1},
    "LeaveGroup": {"throttleTimeMs": 1, "members": 3},
    "OffsetCommit": {"throttleTimeMs": 3},
    "OffsetFetch": {"errorCode": 2, "throttleTimeMs": 3, "committedLeaderEpoch": 5},
    "ConsumerGroupDescribe": {"memberType": 1},
    "DeleteGroups": {"errorMessage": 3},
    "DescribeGroups": {"throttleTimeMs": 1, "authorizedOperations": 3, "groupInstanceId": 4, "errorMessage": 6},
    "ListGroups": {"throttleTimeMs": 1, "groupState": 4, "groupType": 5},
}
"""The first response version that has a field, by API and field. All other fields are in every version."""
FIRST_RELEASE_BY_API = {"DeleteGroups": (1, 1), "OffsetDelete": (2, 4)}
"""The Kafka version that introduced an API, by API. All other APIs exist in every supported version."""


def handle(coordinator: GroupCoordinator, request: Request, reply: Reply) -> None:
    """Send one request to the coordinator. `reply` receives the response, now or later.

    If the API does not exist in the coordinator's Kafka version, `reply` is never called: a broker would close the
    connection without a response.
    """
    first_release = FIRST_RELEASE_BY_API.get(request.api, (0,))
    if coordinator.settings.is_before(*first_release):
        return

    def send(response: Json) -> None:
        first_versions = FIRST_VERSION_BY_API_AND_FIELD.get(request.api, {})
        missing_fields = {name for name, version in first_versions.items() if request.version < version}
        if request.api == "OffsetFetch" and request.version < 2:
            # `offset_fetch` has already removed the group's field "errorCode". The partitions keep theirs.
            missing_fields.discard("errorCode")
        reply(_remove_fields({"throttleTimeMs": 0, **response}, missing_fields))

    HANDLERS[request.api](coordinator, request, send)


def _remove_fields(value: Any, names: set[str]) -> Any:
    """Return a copy of a JSON value without the fields in `names`, on every level."""
    if isinstance(value, dict):
        return {name: _remove_fields(field, names) for name, field in value.items() if name not in names}
    if isinstance(value, list):
        return [_remove_fields(element, names) for element in value]
    return value
