"""What a line of a conversation must hold to be played, so that a strange one is told by its line and field.

A shape is a type (bytes: base64 text), a dict of fields (a name with `?` may be missing), [shape] for a list,
{str: shape} for any names, or (shape, None) for what may be null. Fields that nobody reads are not looked at.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from kafkagroups.errors import UsageError, nested

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
LATER: dict[str, tuple[int, Shape]] = {
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
"""What a request holds since some version of it."""
RESPONSES: dict[str, Shape] = {
    "JoinGroup": {"memberId": str},
    "InitProducerId": {"errorCode": int, "producerId": int, "producerEpoch": int},
    "AddOffsetsToTxn": {"errorCode": int},
    "EndTxn": {"errorCode": int},
    "CreateTopics": {"topics": [{"name": str, "errorCode": int, "numPartitions?": int}]},
    "DeleteTopics": {"responses": [{"name": TEXT_OR_NULL, "errorCode": int}]},
}
"""What is taken from a recorded response."""
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
EXPECTED = {str: "a string", int: "a whole number", bool: "true or false", bytes: "base64", dict: "an object"}


def check_line(line: Any) -> None:
    """UsageError, with the field, for a line that cannot be played."""
    check(line, {"ms": int})
    if "api" in line:
        check(line, REQUEST)
        api = line["api"]
        since, later = LATER.get(api, (0, None))
        shape = later if later is not None and line["api_version"] >= since else REQUESTS.get(api, {})
        check(line, {"request": shape, "response": (RESPONSES.get(api, dict), None)})
    elif "event" in line:
        check(line, {"event": str})
        check(line, EVENTS.get(line["event"], {}))
        if "marker" in line:
            check(line, {"producer_id": int, "producer_epoch": int})


def check(value: Any, shape: Shape, field: str = "") -> None:
    if isinstance(shape, tuple):
        if value is not None:
            check(value, shape[0], field)
    elif isinstance(shape, list):
        _expect(isinstance(value, list), "a list", field)
        for at, each in enumerate(value):
            check(each, shape[0], f"{field}[{at}]")
    elif isinstance(shape, dict):
        _expect(isinstance(value, dict), "an object", field)
        for name, inner in shape.items():
            if name is str:
                for key, each in value.items():
                    check(each, inner, nested(field, key) if field else key)
                continue
            plain = name.rstrip("?")
            inside = nested(field, plain) if field else plain
            if plain in value:
                check(value[plain], inner, inside)
            elif plain == name:
                raise UsageError("is missing", field=inside)
    elif shape is bytes:
        _expect(isinstance(value, str) and _is_base64(value), EXPECTED[bytes], field)
    else:
        right = isinstance(value, shape) and not (shape is int and isinstance(value, bool))
        _expect(right, EXPECTED[shape], field)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return False
    return True


def _expect(right: bool, what: str, field: str) -> None:
    if not right:
        raise UsageError(f"{what} was expected", field=field or "the line")
