"""The file of a recorded conversation: a header, then requests and events, and the fields that each line must have.

A shape, which describes a JSON value, is one of:

    a type            a value of that type (`bytes` is base64 text)
    {name: shape}     an object with these fields; if a name ends with `?`, the field may be missing
    {str: shape}      an object with any field names, whose values have this shape
    [shape]           a list whose elements have this shape
    (shape, None)     a value of this shape, or null

Only the fields that the replay (player.py) reads are checked.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from pathlib import Path
from typing import IO, Any

from kafkagroups.coordinator.recorded_requests import Json
from kafkagroups.errors import UsageError, join_path
from kafkagroups.helpers import check_regular, read_lines

Shape = Any

TEXT_OR_NULL = (str, None)
TEXTS = ("groupId", "memberId", "name", "protocolType", "resourceName", "topicId", "transactionalId")
NUMBERS = (
    *("committedLeaderEpoch", "committedOffset", "commitTimestamp", "configOperation", "count", "generationId"),
    *("generationIdOrMemberEpoch", "memberEpoch", "numPartitions", "partitionIndex", "producerEpoch", "producerId"),
    *("rebalanceTimeoutMs", "resourceType", "retentionTimeMs", "sessionTimeoutMs"),
)
NULLABLE_TEXTS = (
    *("committedMetadata", "groupInstanceId", "instanceId", "protocolName", "rackId", "serverAssignor"),
    *("subscribedTopicRegex", "value"),
)
FIELD_SHAPES: dict[str, Shape] = {
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(NUMBERS, int),
    **dict.fromkeys(NULLABLE_TEXTS, TEXT_OR_NULL),
    "includeAuthorizedOperations": bool,
    "requireStable": bool,
    "partitionIndexes": [int],
    "subscribedTopicNames": ([str], None),
    "protocols": [{"name": str, "metadata": bytes}],
    "assignments": [{"memberId": str, "assignment": bytes}],
}
"""The shapes of the fields of requests, by name."""


def shape(*names: str, **others: Shape) -> Shape:
    """`others` are fields whose shape depends on the request."""
    return {**{name: FIELD_SHAPES[name.rstrip("?")] for name in names}, **others}


COMMITTED = [
    shape("partitionIndex", "committedOffset", "committedMetadata", "committedLeaderEpoch?", "commitTimestamp?")
]
COMMITTED_TOPICS = [shape("name", partitions=COMMITTED)]
COMMITTED_TOPIC_IDS = [shape("topicId", partitions=COMMITTED)]
FETCHING_MEMBER = {"groupId": str, "memberId?": TEXT_OR_NULL, "memberEpoch?": int}
FETCHED_GROUP = {**FETCHING_MEMBER, "topics": ([shape("name", "partitionIndexes")], None)}
FETCHED_GROUP_BY_ID = {**FETCHING_MEMBER, "topics": ([shape("topicId", "partitionIndexes")], None)}
JOIN_GROUP = shape("groupId", "memberId", "groupInstanceId?", "sessionTimeoutMs", "protocolType", "protocols")
HEARTBEAT = shape("groupId", "generationId", "memberId", "groupInstanceId?")
OFFSET_COMMIT = shape("groupId", "generationIdOrMemberEpoch", "memberId", "groupInstanceId?", "retentionTimeMs?")
TXN_OFFSET_COMMIT = shape(
    *("transactionalId", "producerId", "producerEpoch", "groupId", "generationId?", "generationIdOrMemberEpoch?"),
    *("memberId?", "groupInstanceId?"),
)
REQUEST_SHAPES: dict[str, Shape] = {
    "JoinGroup": JOIN_GROUP,
    "SyncGroup": {**HEARTBEAT, "protocolType?": TEXT_OR_NULL, **shape("protocolName?", "assignments")},
    "Heartbeat": HEARTBEAT,
    "LeaveGroup": shape("groupId", "memberId"),
    "OffsetCommit": shape("groupId", topics=COMMITTED_TOPICS),
    "TxnOffsetCommit": {**TXN_OFFSET_COMMIT, "topics": COMMITTED_TOPICS},
    "OffsetFetch": FETCHED_GROUP,
    "DescribeGroups": {"groups": [str], **shape("includeAuthorizedOperations?")},
    "ListGroups": {"statesFilter?": ([str], None), "typesFilter?": ([str], None)},
    "DeleteGroups": {"groupsNames": [str]},
    "ConsumerGroupHeartbeat": {
        **shape("groupId", "memberId", "memberEpoch", "instanceId?", "rackId?", "rebalanceTimeoutMs?"),
        **shape("subscribedTopicNames?", "subscribedTopicRegex?", "serverAssignor?"),
        "topicPartitions?": ([{"topicId": str, "partitions": [int]}], None),
    },
    "ConsumerGroupDescribe": {"groupIds": [str], **shape("includeAuthorizedOperations?")},
    "OffsetDelete": shape("groupId", topics=[shape("name", partitions=[shape("partitionIndex")])]),
    "InitProducerId": {"transactionalId": TEXT_OR_NULL},
    "AddOffsetsToTxn": shape("transactionalId", "groupId"),
    "EndTxn": shape("transactionalId"),
    "CreateTopics": {"topics": [shape("name", "numPartitions")]},
    "CreatePartitions": {"topics": [shape("name", "count")]},
    "IncrementalAlterConfigs": {
        "resources": [shape("resourceType", "resourceName", configs=[shape("name", "configOperation", "value")])]
    },
}
LATER_REQUEST_SHAPES: dict[str, dict[int, Shape]] = {
    "JoinGroup": {1: {**JOIN_GROUP, **shape("rebalanceTimeoutMs")}},
    "LeaveGroup": {3: shape("groupId", members=[shape("memberId", "groupInstanceId?")])},
    "OffsetCommit": {
        1: {**OFFSET_COMMIT, "topics": COMMITTED_TOPICS},
        10: {**OFFSET_COMMIT, "topics": COMMITTED_TOPIC_IDS},
    },
    "TxnOffsetCommit": {6: {**TXN_OFFSET_COMMIT, "topics": COMMITTED_TOPIC_IDS}},
    "OffsetFetch": {
        8: {"groups": [FETCHED_GROUP], **shape("requireStable?")},
        10: {"groups": [FETCHED_GROUP_BY_ID], **shape("requireStable?")},
    },
}
"""By API whose request fields changed, and by the first version with the new fields: the shape since this version."""
COMMIT_RESPONSE = {"topics?": [{"topicId?": str, "partitions": [{"errorCode": int}]}]}
RESPONSE_SHAPES: dict[str, Shape] = {
    "OffsetCommit": COMMIT_RESPONSE,
    "TxnOffsetCommit": COMMIT_RESPONSE,
    "JoinGroup": {"memberId": str},
    "InitProducerId": {"errorCode": int, "producerId": int, "producerEpoch": int},
    "AddOffsetsToTxn": {"errorCode": int},
    "EndTxn": {"errorCode": int},
    "CreateTopics": {"topics": [{"name": str, "errorCode": int, "numPartitions?": int}]},
    "CreatePartitions": {"results": [{"name": str, "errorCode": int}]},
    "IncrementalAlterConfigs": {"responses": [{"resourceName": str, "errorCode": int}]},
    "DeleteTopics": {"responses": [{"name": TEXT_OR_NULL, "errorCode": int}]},
}
"""The fields that the replay reads from a recorded response."""
HEADER_LINE = {"broker": str, "config": dict, "partitions": int, "topics": {str: int}, "start_ms": int}
"""The first line of a conversation.

    broker        the Kafka version of the recorded broker
    partitions    the partition count of the offsets topic
    topics        the partition count of each other topic
    start_ms      in ms since 1970; all other times are in ms since `start_ms`
"""
REQUEST_LINE = {
    "n": int,
    "ms": int,
    "api": str,
    "api_version": int,
    "client_id": str,
    "request": dict,
    "appended?": ([{"partition": int, "first": int}], None),
}
"""A request. `n` is the number of the request, and `ms` is the time at which the client sent the request."""
EVENT_LINES: dict[str, Shape] = {
    "restart": {"ms": int, "up_ms": int},
    "append": {
        "ms": int,
        "why": str,
        "marker?": str,
        "producer_id?": int,
        "producer_epoch?": int,
        "appended": [{"partition": int}],
    },
}
"""The events. "restart": the broker is down from `ms` to `up_ms`. "append": the broker appended batches to the log.

`why` is the reason for the append. If the append is a transaction marker, `marker` is "COMMIT" or "ABORT".
"""
TYPE_NAMES = {str: "a string", int: "a whole number", bool: "true or false", bytes: "base64", dict: "an object"}


def check_line(line: Any) -> None:
    """Raise UsageError with the wrong field if a line after the header cannot be replayed."""
    check(line, {"ms": int})
    if "api" in line:
        check(line, REQUEST_LINE)
        api = line["api"]
        request_shape = REQUEST_SHAPES.get(api, {})
        for first_version, later_shape in LATER_REQUEST_SHAPES.get(api, {}).items():
            if line["api_version"] >= first_version:
                request_shape = later_shape
        check(line, {"request": request_shape, "response": (RESPONSE_SHAPES.get(api, dict), None)})
    elif "event" in line:
        check(line, {"event": str})
        check(line, EVENT_LINES.get(line["event"], {}))
        if "marker" in line:
            check(line, {"producer_id": int, "producer_epoch": int})


def check(value: Any, expected: Shape, field: str = "") -> None:
    """Raise UsageError unless the value has the shape; `field` is its path in the line."""
    if isinstance(expected, tuple):
        if value is not None:
            check(value, expected[0], field)
    elif isinstance(expected, list):
        _require(isinstance(value, list), "a list", value, field)
        for index, element in enumerate(value):
            check(element, expected[0], f"{field}[{index}]")
    elif isinstance(expected, dict):
        _require(isinstance(value, dict), "an object", value, field)
        for name, inner_shape in expected.items():
            if name is str:
                for key, inner_value in value.items():
                    check(inner_value, inner_shape, join_path(field, key) if field else key)
                continue
            key = name.rstrip("?")
            inner_field = join_path(field, key) if field else key
            if key in value:
                check(value[key], inner_shape, inner_field)
            elif key == name:
                raise UsageError("is missing", field=inner_field)
    elif expected is bytes:
        _require(isinstance(value, str) and _is_base64(value), TYPE_NAMES[bytes], value, field)
    else:
        # In Python a bool is also an int. In JSON true is not a number.
        is_bool_for_int = expected is int and isinstance(value, bool)
        _require(isinstance(value, expected) and not is_bool_for_int, TYPE_NAMES[expected], value, field)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def _require(condition: bool, expected: str, value: Any, field: str) -> None:
    if not condition:
        text = json.dumps(value)
        shown_text = text if len(text) <= 40 else f"{text[:37]}..."
        raise UsageError(f"expected {expected}, found {shown_text}", field=field or "the line")


def read_conversation(path: str | Path) -> tuple[Json, list[Json]]:
    """Return the header (the first line) of a conversation, and its requests and events.

    If the file is not a conversation, raise UsageError with the line number and the field.
    """
    try:
        check_regular(os.stat(path), str(path))
        with open(path, "rb") as file:
            lines = _parse_lines(file, path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:  # The path contains a null character.
        raise UsageError(f"{path}: {error}") from None
    return lines[0], lines[1:]


def _parse_lines(file: IO[bytes], path: str | Path) -> list[Json]:
    lines: list[Json] = []
    try:
        for text in read_lines(file):
            line = json.loads(text.decode())
            if lines:
                check_line(line)
            else:
                check(line, HEADER_LINE)
            lines.append(line)
        if not lines:
            raise ValueError
    except (ValueError, RecursionError):
        reason = "expected a conversation: a JSON object on each line; the first line is the header"
        raise UsageError(f"{path}, line {len(lines) + 1}: {reason}") from None
    except UsageError as error:
        raise UsageError(f"{path}, line {len(lines) + 1}: {error}") from None
    return lines
