"""A recorded conversation: the lines of its file (a header, then requests and events), and what the recording decides
because no request contains it: ids of members and topics, and open transactions.

msgspec checks what each line must have, and later each request (recorded_requests.py).

`Transactions` replaces Kafka's transaction coordinator, which a group coordinator asks one question: is this partition
in the producer's open transaction?
Source: TransactionCoordinator.handleVerifyPartitionsInTransaction (3.9).
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any
from uuid import NAMESPACE_URL, uuid5

import msgspec

from kafkagroups.coordinator.messages import Errors, Int16, Int32, Int64, Message
from kafkagroups.coordinator.recorded_requests import Json, Topic
from kafkagroups.errors import UsageError
from kafkagroups.groups.modern_replay import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.helpers import read_lines
from kafkagroups.log.folders import open_log
from kafkagroups.log.segment_file import check_regular
from kafkagroups.records.serde import Record, decode

MAX_PARTITIONS = 10_000
"""The largest partition count of a topic in a conversation. The coordinator loads each partition of its own topic."""
PartitionCount = Annotated[int, msgspec.Meta(le=MAX_PARTITIONS)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A time since the start of the conversation."""


class Header(msgspec.Struct):
    """The first line of a conversation.

    broker        the Kafka version of the recorded broker
    partitions    the partition count of the offsets topic
    topics        the partition count of each other topic
    start_ms      in ms since 1970; all other times are in ms since `start_ms`
    """

    broker: str
    config: dict[str, Any]
    partitions: PartitionCount
    topics: dict[str, PartitionCount]
    start_ms: Int64


class Appended(msgspec.Struct):
    partition: Int32
    first: Int64 | None = None


class RequestLine(msgspec.Struct):
    """`n` is the number of the request, and `ms` is the time at which the client sent the request."""

    n: Int64
    ms: Milliseconds
    api: str
    api_version: Int16
    client_id: str
    request: dict[str, Any]
    response: dict[str, Any] | None
    appended: list[Appended] | None = None


class EventLine(msgspec.Struct):
    """The events. "restart": the broker is down from `ms` to `up_ms`. "append": the broker appended batches to the
    log, for the reason `why`. For a transaction marker, `marker` is "COMMIT" or "ABORT".
    """

    ms: Milliseconds
    up_ms: Milliseconds = 0
    why: str = ""
    appended: list[Appended] = []
    marker: str = ""
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1


class JoinGroupResponse(Message, frozen=True):
    member_id: str


class AnsweredPartition(Message, frozen=True):
    error: Int16


class CommitResponse(Message, frozen=True):
    topics: tuple[Topic[AnsweredPartition], ...] = ()


RESPONSES: dict[str, Any] = {
    "JoinGroup": JoinGroupResponse,
    "OffsetCommit": CommitResponse,
    "TxnOffsetCommit": CommitResponse,
    "CreateTopics": CommitResponse,
}
"""The responses that are read before the replay."""


def check_line(line: Any) -> None:
    """Raise msgspec.ValidationError if a line after the header cannot be replayed."""
    is_request = isinstance(line, dict) and "api" in line
    msgspec.convert(line, RequestLine if is_request else EventLine)
    if is_request:
        msgspec.convert(line["response"], RESPONSES.get(line["api"], dict) | None)


def read_conversation(path: str | Path) -> tuple[Json, list[Json]]:
    """Return the header (the first line) of a conversation, and its requests and events.

    The header gets the field `file`, for messages. If the file is not a conversation, raise UsageError with the line
    number and the field.
    """
    try:
        check_regular(os.stat(path), str(path))
        with open(path, "rb") as file:
            lines = _parse_lines(file, path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:  # The path contains a null character.
        raise UsageError(f"{path}: {error}") from None
    return {**lines[0], "file": str(path)}, lines[1:]


def _parse_lines(file: IO[bytes], path: str | Path) -> list[Json]:
    lines: list[Json] = []
    try:
        for text in read_lines(file):
            line = json.loads(text.decode())
            if lines:
                check_line(line)
            else:
                msgspec.convert(line, Header)
            lines.append(line)
        if not lines:
            raise ValueError
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}, line {len(lines) + 1}: {error}") from None
    except (ValueError, RecursionError):
        reason = "expected a conversation: a JSON object on each line; the first line is the header"
        raise UsageError(f"{path}, line {len(lines) + 1}: {reason}") from None
    return lines


INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
_UNSEEN_IDS = {name: f"{name.strip('_'):A<22.22}".replace("_", "A") for name in INTERNAL_TOPICS}
"""An id for a topic whose id no client has seen."""
_ASSIGNED_TOPIC = re.compile(r'"topicId":"([^"]+)",(?:"topicName":"([^"]+)",)?"partitions":\[([\d,]*)\]')
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


def read_recorded_batch(
    folder: Path | None, partition: int, first_offset: int | None, group_types: Collection[str]
) -> list[Record]:
    """Return the records of a batch in the recorded broker's log; nothing if it is a batch of groups of other types.

    Our coordinator only loads share and streams groups. So that the rest of a conversation finds the same groups, the
    replay appends what the recorded broker wrote for them, at its place.
    """
    log = None if folder is None else folder / f"__consumer_offsets-{partition}"
    batches = open_log(log) if log is not None and log.is_dir() else ()
    batch = next((each for each in batches if each.base_offset == first_offset), None)
    if batch is None or batch.is_control:
        return []
    records = [decode(record.key, record.value) for record in batch.records]
    types = [GROUP_TYPE_BY_RECORD_TYPE.get(record.type) for record in records]
    return [record for record, group_type in zip(records, types, strict=True) if group_type in group_types]


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
    `request_adds_partition` says whether the present request itself adds its partition (TxnOffsetCommit v5 and later,
    KIP-890).
    """

    def __init__(self, partition_for: Callable[[str], int]) -> None:
        self.partition_for = partition_for
        self.by_id: dict[str, Transaction] = {}
        self.request_adds_partition = False
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

    def verify(self, transactional_id: str, producer_id: int, producer_epoch: int, partition: int) -> Errors:
        """Return NONE if the partition is in this producer's open transaction, otherwise the error.

        If the partition already contains an offset of this transaction, Kafka does not verify it.
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
        if self.request_adds_partition:
            transaction.partitions.add(partition)
        return Errors.NONE if partition in transaction.partitions else Errors.TRANSACTION_ABORTABLE


def find_internal_topic_ids(lines: list[Json], known_ids: set[str]) -> dict[str, str]:
    """Return the ids of the internal topics, by name, which a pattern can match although no header names them.

    Descriptions of groups have names and ids. Where there are none, an unknown id with a partition above 0 is the
    offsets topic, because the topic of transactions has only one partition in a recording.
    """
    ids = dict(_UNSEEN_IDS)
    created = {
        topic.topic_id
        for line in lines
        if line.get("api") == "CreateTopics" and line["response"]
        for topic in msgspec.convert(line["response"], CommitResponse).topics
    }
    unnamed: dict[str, bool] = {}
    responses = json.dumps([line.get("response") for line in lines], separators=(",", ":"))
    for topic_id, name, numbers in _ASSIGNED_TOPIC.findall(responses):
        if name in ids:
            ids[name] = topic_id
        elif topic_id not in known_ids | created:
            unnamed[topic_id] = unnamed.get(topic_id, False) or numbers not in ("", "0")
    for topic_id, has_other_numbers in unnamed.items():
        name = INTERNAL_TOPICS[0 if has_other_numbers else 1]
        if ids[name] == _UNSEEN_IDS[name] and topic_id not in ids.values():
            ids[name] = topic_id
    return ids


def find_topic_ids(header: Json, lines: list[Json]) -> dict[str, str]:
    """Return the ids of the topics in the header, by name, for a recording that does not contain them.

    The ids that requests contain and that the broker knows belong to the topics in the header's order. No client has
    seen the others.
    """
    known_ids: dict[str, None] = {}
    for line in lines:
        if line.get("api") in ("OffsetCommit", "TxnOffsetCommit") and line["response"]:
            for topic in msgspec.convert(line["response"], CommitResponse).topics:
                errors = {partition.error for partition in topic.partitions}
                if topic.topic_id and errors != {Errors.UNKNOWN_TOPIC_ID}:
                    known_ids[topic.topic_id] = None
    names = list(header["topics"])
    return {name: make_topic_id(name) for name in names} | dict(zip(names, known_ids, strict=False))


def make_topic_id(text: str) -> str:
    """Return an id for a topic, always the same for the same text."""
    return base64.urlsafe_b64encode(uuid5(NAMESPACE_URL, text).bytes).decode().rstrip("=")
