"""What a recording decides in a replay: ids of members and topics, transactions, batches of other groups.

`Transactions` replaces Kafka's transaction coordinator. A group coordinator asks the transaction coordinator one
question: is this partition in the producer's open transaction (`verify`)? Transaction markers come from the recording.
Source: TransactionCoordinator.handleVerifyPartitionsInTransaction (3.9).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kafkagroups.coordinator.error_codes import Errors
from kafkagroups.coordinator.recorded_requests import Json
from kafkagroups.groups.modern import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.log.folders import open_log
from kafkagroups.records.serde import Record, decode

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
_UNSEEN_IDS = {name: f"{name.strip('_'):A<22.22}".replace("_", "A") for name in INTERNAL_TOPICS}
"""An id for a topic whose id no client has seen."""
# A member id is the client id or the instance id, a hyphen, and a random UUID.
_MEMBER_ID = re.compile(r'"([^"]*-[0-9a-f]{8}-[0-9a-f-]{27})"')


class RecordedMemberIds:
    """The member ids of a conversation, in their recorded order.

    A real broker creates random member ids. The replay must give each member the recorded id, because the member's
    later requests contain this id.
    """

    def __init__(self, lines: list[Json]) -> None:
        responses = [line["response"] for line in lines if line.get("api") == "JoinGroup" and line["response"]]
        self._used_ids = {response["memberId"] for response in responses}
        self._recorded_ids = dict.fromkeys(_MEMBER_ID.findall(json.dumps(lines, ensure_ascii=False)))
        self._next_id = ""
        self._created_count = 0

    def prepare(self, line: Json) -> None:
        """Prepare the id that `supply` returns during the next request. Call this method before each request.

        `line` has the request and its recorded response.
        """
        has_response = line["api"] in ("JoinGroup", "ConsumerGroupHeartbeat") and line["response"]
        self._next_id = line["response"]["memberId"] or "" if has_response else ""

    def supply(self, prefix: str) -> str:
        """Return the id of a new member. `prefix` is the member's client id or instance id.

        The id is the first of these that exists:

        - the id in the recorded response to the request
        - an unused recorded id that begins with the prefix
        - a new id
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
    """The batches of share and streams groups, which the replay appends as they are.

    Our coordinator only loads these groups. So that the rest of a conversation finds the same groups, the replay
    appends what the recorded broker wrote for them, at its place. `folder` has the partitions of the recorded log;
    None: no batches.
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

    `partitions` are the partitions of the offsets topic that the transaction includes. `is_ending` is True from the
    client's EndTxn request until the transaction's marker is written.
    """

    producer_id: int
    producer_epoch: int
    partitions: set[int] = field(default_factory=set)
    is_ending: bool = False


class Transactions:
    """The newest transaction of each transactional id (`by_id`).

    The parameters `request` and `response` are a recorded request and its recorded response as JSON. `partition_for`
    returns the partition of the offsets topic that stores a group.
    """

    def __init__(self, partition_for: Callable[[str], int]) -> None:
        self.partition_for = partition_for
        self.by_id: dict[str, Transaction] = {}
        self._written: set[tuple[int, int, int]] = set()

    def init_producer_id(self, request: Json, response: Json) -> None:
        """Handle an InitProducerId: store the producer id and its new epoch, with an empty transaction.

        The marker that aborts an earlier open transaction comes from the recording.
        """
        transaction = Transaction(response["producerId"], response["producerEpoch"])
        if response["errorCode"] == Errors.NONE and request["transactionalId"] is not None:
            self.by_id[request["transactionalId"]] = transaction

    def add_offsets(self, request: Json, response: Json) -> None:
        """Handle an AddOffsetsToTxn: add the group's partition of the offsets topic to the transaction."""
        transaction = self.by_id.get(request["transactionalId"])
        if response["errorCode"] == Errors.NONE and transaction:
            if transaction.is_ending:
                # The previous transaction has ended, because a broker accepts the offsets only in the next transaction.
                transaction.partitions.clear()
            transaction.is_ending = False
            transaction.partitions.add(self.partition_for(request["groupId"]))

    def end(self, request: Json, response: Json) -> None:
        """Handle an EndTxn: until the transaction's marker is written, `verify` returns CONCURRENT_TRANSACTIONS.

        Since version 5, the response contains the producer epoch of the next transaction, and a transaction that
        contains nothing can be aborted, without a marker (KIP-890).
        """
        transaction = self.by_id.get(request["transactionalId"])
        if response["errorCode"] == Errors.NONE and transaction:
            transaction.is_ending = bool(transaction.partitions) or "producerEpoch" not in response
            transaction.producer_epoch = response.get("producerEpoch", transaction.producer_epoch)

    def note_append(self, producer_id: int, producer_epoch: int, partition: int) -> None:
        """Note that the partition of the offsets topic contains a commit of the producer's open transaction."""
        self._written.add((producer_id, producer_epoch, partition))

    def end_with_marker(self, producer_id: int) -> None:
        """End the producer's transaction after the marker was written."""
        self._written = {written for written in self._written if written[0] != producer_id}
        for transaction in self.by_id.values():
            if transaction.producer_id == producer_id:
                transaction.partitions.clear()
                transaction.is_ending = False

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: int, *, adds: bool = False
    ) -> Errors:
        """Return NONE if the partition is in this producer's open transaction, otherwise the error.

        If the partition already contains an offset of this transaction, Kafka does not verify the transaction. `adds`
        says whether the partition is added to the transaction: since version 5 of TxnOffsetCommit, no AddOffsetsToTxn
        comes before (KIP-890).
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
    """Return the ids of the internal topics, by name. `known_ids` are the ids of all topics in the header.

    A pattern can match these topics. The header does not name them, but what members are assigned does.
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
    """Yield all objects that say which partitions of a topic a member has."""
    if isinstance(value, dict):
        numbers = value.get("partitions")
        if "topicId" in value and isinstance(numbers, list) and all(isinstance(each, int) for each in numbers):
            yield value
        for each in value.values():
            yield from _iterate_topics(each)
    elif isinstance(value, list):
        for each in value:
            yield from _iterate_topics(each)
