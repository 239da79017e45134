"""What tests need to make a log by hand: records, batches of every format, markers, and the files of a partition.

Whoever builds bytes reaches below the public names, so all tests do it through this module, and a change inside the
package meets them in one place. The functions at the end make the records of group `g` and write them as a log.
"""

# ruff: noqa: F401 - imported by the tests

import struct
import zlib

import kafkagroups as kg
from kafkagroups.log import segments
from kafkagroups.log.batch import (
    CONTROL,
    CRC_FROM,
    CRC_POSITION,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MIN_RECORD_LIMIT,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    LogRecord,
    crc32c,
    encode_batch,
)
from kafkagroups.log.batches import read_batches
from kafkagroups.log.compression import CompressionType, compress, decompress
from kafkagroups.log.segment_file import segment_name
from kafkagroups.log.segments import Log
from kafkagroups.log.writer import LogWriter
from kafkagroups.records import consumer_group, share_group, streams_group
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicAndPartitions,
    VersionedMessage,
    encode_versioned,
)
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import (
    ControlType,
    decode_control_key,
    decode_end_transaction_marker,
    encode_control_key,
    encode_end_transaction_marker,
)
from kafkagroups.topic import read_topic_table

START = 1_700_000_000_000
"""The time of the first record: 2023-11-14 22:13:20 UTC."""
MINUTE = 60_000


def commit_record(offset, partition=0, topic="t", *, group="g", metadata="", time=START, topic_id=None, leader_epoch=0):
    more = {} if topic_id is None else {"topic_id": topic_id}
    value = OffsetCommitValue(offset, leader_epoch, metadata, time, **more)
    return kg.Record(1, OffsetCommitKey(group, topic, partition), value, 3 if topic_id is None else 4)


def offset_tombstone(partition=0, topic="t", group="g"):
    return kg.Record(1, OffsetCommitKey(group, topic, partition), None, None)


def classic_member(
    member_id="m", topics=("t",), *, instance=None, client="c", host="/h", rack=None, assigned=(), **times
):
    """Return a member of a classic group that reads topics. `assigned` has its partitions of the first one."""
    subscription = ConsumerProtocolSubscription(tuple(topics), None, (), -1, rack)
    partitions = (TopicAndPartitions(topics[0], assigned),) if assigned else ()
    return MemberMetadata(
        member_id,
        instance,
        client,
        host,
        times.get("rebalance_ms", 1000),
        times.get("session_ms", 1000),
        encode_versioned(VersionedMessage(3, subscription)),
        encode_versioned(VersionedMessage(0, ConsumerProtocolAssignment(partitions))),
    )


def generation(number, *members, group="g", protocol="range"):
    """Return the record of a classic group; without members, it is Empty."""
    leader = members[0].member_id if members else None
    value = GroupMetadataValue("consumer", number, protocol if members else None, leader, START, members)
    return kg.Record(2, GroupMetadataKey(group), value, 3)


def group_tombstone(group="g"):
    return kg.Record(2, GroupMetadataKey(group), None, None)


def consumer_member(member_id="m", topics=("t",), *, client="c", host="/h"):
    value = consumer_group.ConsumerGroupMemberMetadataValue(None, None, client, host, topics, None, 1000, None, None)
    return kg.Record(5, consumer_group.MemberIdKey("g", member_id), value, 0)


def consumer_epoch(epoch):
    value = consumer_group.ConsumerGroupMetadataValue(epoch)
    return kg.Record(3, consumer_group.GroupIdKey("g"), value, 0)


def encode_marker(offset, producer_id, kind=ControlType.COMMIT, *, time=START):
    """Return the control batch that ends a transaction."""
    record = LogRecord(offset, time, encode_control_key(kind), encode_end_transaction_marker(0))
    return encode_batch([record], attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id, producer_epoch=0)


def message(offset, key, value, attributes=0, magic=1):
    """Return a message of magic 0 or 1. With a codec in its attributes, it is a wrapper of compressed messages."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", 5) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def flip_bit(file, position):
    """Change the lowest bit of a byte of a file."""
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)


def write_segment(folder, data, partition=0, base_offset=0):
    """Write bytes as a segment of a partition below `folder`; return the path of the partition."""
    log = folder / f"__consumer_offsets-{partition}"
    log.mkdir(parents=True, exist_ok=True)
    (log / segment_name(base_offset)).write_bytes(data)
    return log


def write_batches(folder, batches, partition=7):
    """Write batches as a log below `folder`; return its path. A batch is its milliseconds after START and records."""
    data = b""
    offset = 0
    for time, records in batches:
        data += encode_batch([LogRecord(offset + n, START + time, *kg.encode(each)) for n, each in enumerate(records)])
        offset += len(records)
    return write_segment(folder, data, partition)


def log_of_buffers(buffers, partition):
    """Return the log of segments in memory: the bytes of each by its name, as pairs or a mapping."""
    return segments.log_of_buffers(dict(buffers), partition)


def load_table(source, *, table="offsets", partition=None, columns=None, **rules):
    """Return a table of a log, or of the bytes of its segments by their names (pairs or a mapping)."""
    log = source if isinstance(source, Log) else log_of_buffers(source, partition)
    rules.setdefault("max_batch_bytes", log.max_batch_bytes)
    return read_topic_table(kg.Topic("", **rules).open(find_logs=lambda path: [log]), table, columns)
