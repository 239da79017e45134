"""The fields that each line of a conversation must have, and their check.

A shape is one of:

    a type            a value of that type (`bytes` is base64 text)
    {name: shape}     an object with these fields; a name that ends with `?` may be missing
    {str: shape}      an object with any names
    [shape]           a list
    (shape, None)     a value that may be null

Only the fields that the player reads are checked.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from kafkagroups.errors import UsageError, join_path

Shape = Any

TEXT_OR_NULL = (str, None)
MEMBER = {"groupId": str, "generationId": int, "memberId": str, "groupInstanceId?": TEXT_OR_NULL}
OFFSETS = [
    {
        "name": str,
        "partitions": [
            {
                "partitionIndex": int,
                "committedOffset": int,
                "committedMetadata": TEXT_OR_NULL,
                "committedLeaderEpoch?": int,
                "commitTimestamp?": int,
            }
        ],
    }
]
FETCHED = {"groupId": str, "topics": ([{"name": str, "partitionIndexes": [int]}], None)}
PRODUCER = {"transactionalId": str, "producerId": int, "producerEpoch": int}

JOINING = {
    "groupId": str,
    "memberId": str,
    "groupInstanceId?": TEXT_OR_NULL,
    "sessionTimeoutMs": int,
    "protocolType": str,
    "protocols": [{"name": str, "metadata": bytes}],
}

REQUESTS: dict[str, Shape] = {
    "JoinGroup": JOINING,
    "SyncGroup": {
        **MEMBER,
        "protocolType?": TEXT_OR_NULL,
        "protocolName?": TEXT_OR_NULL,
        "assignments": [{"memberId": str, "assignment": bytes}],
    },
    "Heartbeat": MEMBER,
    "LeaveGroup": {"groupId": str, "memberId": str},
    "OffsetCommit": {"groupId": str, "topics": OFFSETS},
    "TxnOffsetCommit": {
        **PRODUCER,
        "groupId": str,
        "generationId?": int,
        "memberId?": str,
        "groupInstanceId?": TEXT_OR_NULL,
        "topics": OFFSETS,
    },
    "OffsetFetch": FETCHED,
    "DescribeGroups": {"groups": [str], "includeAuthorizedOperations?": bool},
    "ListGroups": {"statesFilter?": ([str], None), "typesFilter?": ([str], None)},
    "DeleteGroups": {"groupsNames": [str]},
    "OffsetDelete": {"groupId": str, "topics": [{"name": str, "partitions": [{"partitionIndex": int}]}]},
    "InitProducerId": {"transactionalId": TEXT_OR_NULL},
    "AddOffsetsToTxn": {"transactionalId": str, "groupId": str},
    "EndTxn": {"transactionalId": str},
    "CreateTopics": {"topics": [{"name": str, "numPartitions": int}]},
}
LATER_VERSIONS: dict[str, tuple[int, Shape]] = {
    "JoinGroup": (1, {**JOINING, "rebalanceTimeoutMs": int}),
    "LeaveGroup": (3, {"groupId": str, "members": [{"memberId": str, "groupInstanceId?": TEXT_OR_NULL}]}),
    "OffsetCommit": (
        1,
        {
            "groupId": str,
            "generationIdOrMemberEpoch": int,
            "memberId": str,
            "groupInstanceId?": TEXT_OR_NULL,
            "retentionTimeMs?": int,
            "topics": OFFSETS,
        },
    ),
    "OffsetFetch": (8, {"groups": [FETCHED], "requireStable?": bool}),
}
"""The shape of a request from a certain version on."""
RESPONSES: dict[str, Shape] = {
    "JoinGroup": {"memberId": str},
    "InitProducerId": {"errorCode": int, "producerId": int, "producerEpoch": int},
    "AddOffsetsToTxn": {"errorCode": int},
    "EndTxn": {"errorCode": int},
    "CreateTopics": {"topics": [{"name": str, "errorCode": int, "numPartitions?": int}]},
    "DeleteTopics": {"responses": [{"name": TEXT_OR_NULL, "errorCode": int}]},
}
"""The fields that the player takes from a recorded response."""
HEADER = {"broker": str, "config": dict, "partitions": int, "topics": {str: int}, "start_ms": int}
REQUEST = {"n": int, "ms": int, "api": str, "api_version": int, "client_id": str, "request": dict}
EVENTS: dict[str, Shape] = {
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
TYPE_NAMES = {str: "a string", int: "a whole number", bool: "true or false", bytes: "base64", dict: "an object"}


def check_line(line: Any) -> None:
    """Raise UsageError with the field if the line cannot be played."""
    check(line, {"ms": int})
    if "api" in line:
        check(line, REQUEST)
        api = line["api"]
        since, later = LATER_VERSIONS.get(api, (0, None))
        shape = later if later is not None and line["api_version"] >= since else REQUESTS.get(api, {})
        check(line, {"request": shape, "response": (RESPONSES.get(api, dict), None)})
    elif "event" in line:
        check(line, {"event": str})
        check(line, EVENTS.get(line["event"], {}))
        if "marker" in line:
            check(line, {"producer_id": int, "producer_epoch": int})


def check(value: Any, shape: Shape, field: str = "") -> None:
    """Raise UsageError with the field if the value does not have the shape."""
    if isinstance(shape, tuple):
        if value is not None:
            check(value, shape[0], field)
    elif isinstance(shape, list):
        _require(isinstance(value, list), "a list", value, field)
        for at, each in enumerate(value):
            check(each, shape[0], f"{field}[{at}]")
    elif isinstance(shape, dict):
        _require(isinstance(value, dict), "an object", value, field)
        for name, inner in shape.items():
            if name is str:
                for key, each in value.items():
                    check(each, inner, join_path(field, key) if field else key)
                continue
            plain = name.rstrip("?")
            inside = join_path(field, plain) if field else plain
            if plain in value:
                check(value[plain], inner, inside)
            elif plain == name:
                raise UsageError("is missing", field=inside)
    elif shape is bytes:
        _require(isinstance(value, str) and _is_base64(value), TYPE_NAMES[bytes], value, field)
    else:
        is_bool_for_int = shape is int and isinstance(value, bool)
        _require(isinstance(value, shape) and not is_bool_for_int, TYPE_NAMES[shape], value, field)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def _require(condition: bool, expected: str, value: Any, field: str) -> None:
    if not condition:
        found = json.dumps(value)
        shown = found if len(found) <= 40 else f"{found[:37]}..."
        raise UsageError(f"expected {expected}, found {shown}", field=field or "the line")
