"""Record types 0 and 1: the committed offset of a group in one partition of a topic.

The key contains the group, the topic and the partition, and the value the offset. A record with a null value (a
tombstone) deletes the offset. Kafka 0.8.2 wrote type 0, and all later versions write type 1.

If a log has records of both types for the same group and partition, a broker uses the later record. The log cleaner
keeps one record of each type, because the types are in the keys, so the keys differ.

    key      int16 record type, string group, string topic, int32 partition
    value    int16 value version, then the fields of the classes below

Source (4.3.1): OffsetCommitKey.json; OffsetCommitValue.json; LegacyOffsetCommit{Key,Value}.json.
"""

from __future__ import annotations

from kafkagroups.records.structs import Message, field
from kafkagroups.records.wire import INT32, INT64, STRING, UUID


class LegacyOffsetCommitValue(Message):
    """A committed offset, as Kafka 0.8.2 wrote it.

    Kafka 4.1 and later read only value version 0, with these fields. Kafka up to 4.0 reads the value as an
    OffsetCommitValue.
    """

    offset: int = field(INT64, "the next record that the group will read")
    metadata: str = field(STRING, "a note from the client")
    commit_timestamp: int = field(INT64, "when the offset was committed, ms since 1970")


class OffsetCommitKey(Message):
    """The key of record types 0 and 1."""

    group: str = field(STRING, "the group that committed the offset")
    topic: str = field(STRING, "the topic that the group reads")
    partition: int = field(INT32, "the partition of that topic")


class OffsetCommitValue(Message, flexible="4+"):
    """A committed offset: the offset of the next record that the group will read.

    version  written by    new in this version
    0        0.8.2
    1        0.9 to 2.0    expire_timestamp: when the offset expires, -1 = no time was given. Later versions write
                           version 1 only for a client that asks for a retention time (OffsetCommit v2 to v4)
    2        2.1-IV0       without expire_timestamp: offsets expire with their group (KIP-211)
    3        2.1 to 4.0    leader_epoch of the last record consumed, -1 = unknown (KIP-320)
    4        since 4.1     compact lengths, tagged fields; topic_id, zero = unknown (KIP-848)

    2.1-IV0 is a development version of Kafka 2.1. Kafka 2.1 took the -1 of version 1 for a time that is over, so a load
    made these offsets vanish (KAFKA-8069, mended in 2.2.0). Timestamps are in ms since 1970. A field that a version
    does not have gets the default value.
    """

    offset: int = field(INT64, "the next record that the group will read")
    leader_epoch: int = field(INT32, "epoch of the last record read; -1 = unknown", versions="3+", default=-1)
    metadata: str = field(STRING, "a note from the client")
    commit_timestamp: int = field(INT64, "when the offset was committed, ms since 1970")
    expire_timestamp: int = field(INT64, "when the offset expires; -1 = no time was given", versions="1", default=-1)
    topic_id: str = field(UUID, "the topic's id; zero = unknown", versions="4+", tag=0, since="4.1")
