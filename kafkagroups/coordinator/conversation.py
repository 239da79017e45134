"""A recorded conversation: the lines of its file (a header, then requests and events), the fields that each must have,
and what the recording decides because no request contains it: ids of members and topics, and open transactions.

A shape, which describes a JSON value, is one of:

    a type            a value of that type (`bytes` is base64 text)
    {name: shape}     an object with these fields; if a name ends with `?`, the field may be missing
    {str: shape}      an object with any field names, whose values have this shape
    [shape]           a list whose elements have this shape
    (shape, None)     a value of this shape, or null

Only the fields that the replay (player.py) reads are checked.

`Transactions` replaces Kafka's transaction coordinator, which a group coordinator asks one question: is this partition
in the producer's open transaction?
Source: TransactionCoordinator.handleVerifyPartitionsInTransaction (3.9).
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any
from uuid import NAMESPACE_URL, uuid5

from kafkagroups.coordinator.messages import Errors
from kafkagroups.coordinator.recorded_requests import Json
from kafkagroups.errors import UsageError, join_path
from kafkagroups.groups.modern_replay import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.helpers import read_lines
from kafkagroups.log.folders import open_log
from kafkagroups.log.segment_file import check_regular
from kafkagroups.records.serde import Record, decode

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
    except ValueError:
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


INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
_UNSEEN_IDS = {name: f"{name.strip('_'):A<22.22}".replace("_", "A") for name in INTERNAL_TOPICS}
"""An id for a topic whose id no client has seen."""
# A member id is the client id or the instance id, a hyphen, and a random UUID.
_MEMBER_ID = re.compile(r'"([^"]*-[0-9a-f]{8}-[0-9a-f-]{27})"')


class RecordedMemberIds:
    """The member ids of a conversation, which members' later requests contain."""

    def __init__(self, lines: list[Json]) -> None:
        responses = [line["response"] for line in lines if line.get("api") == "JoinGroup" and line["response"]]
        self._used_ids = {response["memberId"] for response in responses}
        self._recorded_ids = dict.fromkeys(_MEMBER_ID.findall(json.dumps(lines, ensure_ascii=False)))
        self._next_id = ""
        self._created_count = 0

    def prepare(self, line: Json) -> None:
        has_response = line["api"] in ("JoinGroup", "ConsumerGroupHeartbeat") and line["response"]
        self._next_id = line["response"]["memberId"] or "" if has_response else ""

    def supply(self, prefix: str) -> str:
        """Return the id of a new member: that in the recorded response, an unused recorded one, or a new one.

        `prefix` is the member's client id or instance id, with which its id begins.
        """
        if not self._next_id:
            unused_ids = (
                member_id
                for member_id in self._recorded_ids
                if member_id.startswith(f"{prefix}-") and member_id not in self._used_ids
            )
            self._next_id = next(unused_ids, f"{prefix}-{self._created_count:08x}-0000-4000-8000-000000000000")
            self._created_count += 1
        self._used_ids.add(self._next_id)
        return self._next_id


class RecordedBatches:
    """The batches of share and streams groups, which our coordinator only loads.

    So that the rest of a conversation finds the same groups, the replay appends what the recorded broker wrote for
    them, at its place.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def find(self, partition: int, first_offset: int | None, group_types: Collection[str]) -> list[Record]:
        """Return the records of a batch; nothing if it is a batch of groups of other types."""
        if first_offset is None:
            return []
        records = self._batches.get((partition, first_offset), [])
        return [record for record in records if GROUP_TYPE_BY_RECORD_TYPE[record.type] in group_types]

    @cached_property
    def _batches(self) -> dict[tuple[int, int], list[Record]]:
        batches: dict[tuple[int, int], list[Record]] = {}
        folders = [] if self.folder is None else sorted(self.folder.glob("__consumer_offsets-*"))
        for folder in folders:
            partition = int(folder.name.rpartition("-")[2])
            for batch in open_log(folder):
                if batch.is_control:
                    continue
                records = [decode(record.key, record.value) for record in batch.records]
                types = {GROUP_TYPE_BY_RECORD_TYPE.get(record.type) for record in records}
                if types <= {"share", "streams"}:
                    batches[partition, batch.base_offset] = records
        return batches


@dataclass
class Transaction:
    """The newest transaction of a transactional id.

    `partitions` are those of the offsets topic. `is_ending` is True from EndTxn until the transaction's marker is
    written.
    """

    producer_id: int
    producer_epoch: int
    partitions: set[int] = field(default_factory=set)
    is_ending: bool = False


class Transactions:
    """The newest transaction of each transactional id (`by_id`).

    `request` and `response` are recorded JSON. `partition_for` returns the partition of the offsets topic of a group.
    """

    def __init__(self, partition_for: Callable[[str], int]) -> None:
        self.partition_for = partition_for
        self.by_id: dict[str, Transaction] = {}
        self._written: set[tuple[int, int, int]] = set()

    def init_producer_id(self, request: Json, response: Json) -> None:
        """Store the producer id and its new epoch. The marker of an earlier open transaction is recorded."""
        transaction = Transaction(response["producerId"], response["producerEpoch"])
        if response["errorCode"] == Errors.NONE and request["transactionalId"] is not None:
            self.by_id[request["transactionalId"]] = transaction

    def add_offsets(self, request: Json, response: Json) -> None:
        transaction = self.by_id.get(request["transactionalId"])
        if response["errorCode"] == Errors.NONE and transaction:
            if transaction.is_ending:
                # The previous transaction has ended, because a broker accepts the offsets only in the next transaction.
                transaction.partitions.clear()
            transaction.is_ending = False
            transaction.partitions.add(self.partition_for(request["groupId"]))

    def end(self, request: Json, response: Json) -> None:
        """Until the transaction's marker is written, `verify` returns CONCURRENT_TRANSACTIONS.

        Since version 5, the response contains the producer epoch of the next transaction, and a transaction that
        contains nothing can be aborted, without a marker (KIP-890).
        """
        transaction = self.by_id.get(request["transactionalId"])
        if response["errorCode"] == Errors.NONE and transaction:
            transaction.is_ending = bool(transaction.partitions) or "producerEpoch" not in response
            transaction.producer_epoch = response.get("producerEpoch", transaction.producer_epoch)

    def note_append(self, producer_id: int, producer_epoch: int, partition: int) -> None:
        self._written.add((producer_id, producer_epoch, partition))

    def end_with_marker(self, producer_id: int) -> None:
        self._written = {written for written in self._written if written[0] != producer_id}
        for transaction in self.by_id.values():
            if transaction.producer_id == producer_id:
                transaction.partitions.clear()
                transaction.is_ending = False

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: int, *, adds: bool = False
    ) -> Errors:
        """Return NONE if the partition is in this producer's open transaction, otherwise the error.

        If the partition already contains an offset of this transaction, Kafka does not verify it. `adds` says whether
        the request itself adds the partition (TxnOffsetCommit v5 and later, KIP-890).
        """
        if (producer_id, producer_epoch, partition) in self._written:
            return Errors.NONE
        transaction = self.by_id.get(transactional_id)
        if transaction is None or transaction.producer_id != producer_id:
            return Errors.INVALID_PRODUCER_ID_MAPPING
        if transaction.producer_epoch != producer_epoch:
            return Errors.INVALID_PRODUCER_EPOCH
        if transaction.is_ending:
            return Errors.CONCURRENT_TRANSACTIONS
        if adds:
            transaction.partitions.add(partition)
        return Errors.NONE if partition in transaction.partitions else Errors.TRANSACTION_ABORTABLE


def find_internal_topic_ids(lines: list[Json], known_ids: set[str]) -> dict[str, str]:
    """Return the ids of the internal topics, by name, which a pattern can match although no header names them.

    Descriptions of groups have names and ids. Where there are none, an unknown id with a partition above 0 is the
    offsets topic, because the topic of transactions has only one partition in a recording.
    """
    ids = dict(_UNSEEN_IDS)
    unnamed: dict[str, int] = {}
    created = {
        topic.get("topicId")
        for line in lines
        if line.get("api") == "CreateTopics" and line["response"]
        for topic in line["response"]["topics"]
    }
    for topic in _iterate_topics([line["response"] for line in lines if line.get("response")]):
        if topic.get("topicName") in ids:
            ids[topic["topicName"]] = topic["topicId"]
        elif topic["topicId"] not in known_ids | created:
            unnamed[topic["topicId"]] = max([unnamed.get(topic["topicId"], 0), *topic["partitions"]])
    for topic_id, highest in unnamed.items():
        name = INTERNAL_TOPICS[0 if highest else 1]
        if ids[name] == _UNSEEN_IDS[name] and topic_id not in ids.values():
            ids[name] = topic_id
    return ids


def _iterate_topics(value: Any) -> Iterator[Json]:
    inner: Iterable[Any] = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        inner = value.values()
        numbers = value.get("partitions")
        if "topicId" in value and isinstance(numbers, list) and all(isinstance(each, int) for each in numbers):
            yield value
    for each in inner:
        yield from _iterate_topics(each)


def find_topic_ids(header: Json, lines: list[Json]) -> dict[str, str]:
    """Return the ids of the topics in the header, by name, for a recording that does not contain them.

    The ids that requests contain and that the broker knows belong to the topics in the header's order. No client has
    seen the others.
    """
    known_ids: dict[str, None] = {}
    for line in lines:
        if line.get("api") in ("OffsetCommit", "TxnOffsetCommit") and line["response"]:
            for topic in line["response"].get("topics", ()):
                errors = {partition["errorCode"] for partition in topic["partitions"]}
                if "topicId" in topic and errors != {Errors.UNKNOWN_TOPIC_ID}:
                    known_ids[topic["topicId"]] = None
    names = list(header["topics"])
    return {name: make_topic_id(name) for name in names} | dict(zip(names, known_ids, strict=False))


def make_topic_id(text: str) -> str:
    """Return an id for a topic, always the same for the same text."""
    return base64.urlsafe_b64encode(uuid5(NAMESPACE_URL, text).bytes).decode().rstrip("=")
