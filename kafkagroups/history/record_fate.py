"""One record and its fate, as a dataclass and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Cause
from kafkagroups.history.words import time_or_none


@dataclass(slots=True)
class RecordFate:
    """One record and its fate.

    Attributes
    ----------
    partition, offset
        The partition of the offsets topic, and the record's offset in this partition. The partition is None if the
        log's folder has no partition number.
    type, group
        The record type and the group id. Both are None for markers and for records that cannot be read.
    key
        The topic partition in the key of an offset record; None for other records.
    member_id
        The member id in the key of a member's record; None for other records.
    fate
        What happened to the record; None until the fate is decided.
    by
        The offset (in the same partition) of the record that decided the fate: the newer record, the tombstone or the
        marker. None if no other record decided the fate.
    why
        Why the record is ignored, or why it counts although a tombstone follows it. None for other records.
    size
        The record's uncompressed size in bytes. In `stats`: how many bytes of the batch on disk belong to the record.
    timestamp
        The record's timestamp, in ms since the epoch. -1 means that the record has no timestamp.
    file
        The path of the segment that contains the record; None if the batch was not read from a file.
    committed
        The offset that an offset record commits; None for other records and tombstones.
    replaced
        The offset that was committed right before an offset record took effect. A record in a transaction takes effect
        at the marker. None if there was none, or if the record never took effect. Only `explain` sets this attribute
        and the next one.
    went_back
        Whether an offset record commits a smaller offset than the one that it replaced. The replaced offset can also be
        a pending one whose transaction was committed later.
    note
        Offset record: the commit's metadata. Marker: "commit" or "abort". Tombstone, other record: None.
    producer_id, producer_epoch
        The producer id and the producer epoch of the record's batch; None if the batch has no producer.
    is_transactional
        Whether the record's batch has the transactional bit.
    is_unreadable
        Whether the coordinator cannot read the record's value, or does not read its type.
    is_unloaded
        Whether the record is ignored because the load of the partition fails.
    group_record
        Group record: the group after the record's batch (group_records.py). None for other records. Only `explain`
        sets this attribute and the next two.
    cause
        Tombstone: how the record came to be, as far as the log tells. None for other records.
    what
        One sentence about what the record changed, as in `timeline`. None if there is nothing to say.
    """

    partition: int | None
    offset: int
    type: int | None
    group: str | None
    key: TopicPartition | None
    member_id: str | None
    fate: Fate | None
    by: int | None = None
    why: str | None = None
    size: int = 0
    timestamp: int = -1
    file: str | None = None
    committed: int | None = None
    replaced: int | None = None
    went_back: bool = False
    note: str | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    is_transactional: bool = False
    is_unreadable: bool = False
    is_unloaded: bool = False
    group_record: dict[str, Any] | None = None
    cause: Cause | None = None
    what: str | None = None


def history_json(entry: RecordFate) -> dict[str, Any]:
    """Return a record and its fate as JSON, for the output of `explain`."""
    assert entry.fate is not None
    fields: dict[str, Any] = {
        "partition": entry.partition,
        "offset": entry.offset,
        "type": entry.type,
        "key": None if entry.key is None else str(entry.key),
        "fate": entry.fate.value,
        "by": entry.by,
        "timestamp": entry.timestamp,
        "timestamp_ms": time_or_none(entry.timestamp),
        "group_record": entry.group_record,
    }
    if entry.committed is not None:
        fields |= {
            "committed_offset": entry.committed,
            "from": entry.replaced,
            "went_back": entry.went_back,
            "metadata": entry.note,
        }
    if entry.fate is Fate.MARKER:
        fields["control"] = entry.note
    if entry.producer_id is not None:
        fields |= {"producer_id": entry.producer_id, "producer_epoch": entry.producer_epoch}
    if entry.member_id is not None:
        fields["member_id"] = entry.member_id
    if entry.fate is Fate.TOMBSTONE:
        fields["cause"] = (entry.cause or Cause.UNKNOWN).value
    if entry.what is not None:
        fields["what"] = entry.what
    if entry.why is not None:
        fields["why"] = entry.why
    return fields
