"""What tests need to make a log by hand: records, batches of every format, markers, and the files of a partition.

Whoever builds bytes reaches below the public names, so all tests do it through this module, and a change inside the
package meets them in one place.
"""

from kafkagroups.log.batch import (
    CONTROL,
    CRC_FROM,
    CRC_POSITION,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    LogRecord,
    crc32c,
    encode_batch,
)
from kafkagroups.log.batches import read_batches
from kafkagroups.log.compression import CompressionType, compress, decompress
from kafkagroups.log.segment_file import segment_name
from kafkagroups.log.segments import log_of_buffers
from kafkagroups.log.writer import LogWriter
from kafkagroups.records import consumer_group, share_group, streams_group
from kafkagroups.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicAndPartitions,
    VersionedMessage,
    encode_versioned,
)
from kafkagroups.records.control import (
    ControlType,
    decode_control_key,
    decode_end_transaction_marker,
    encode_control_key,
    encode_end_transaction_marker,
)
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue

__all__ = [
    "CONTROL",
    "CRC_FROM",
    "CRC_POSITION",
    "DELETE_HORIZON",
    "HEADER",
    "HEADER_SIZE",
    "LOG_APPEND_TIME",
    "NO_PRODUCER_ID",
    "TRANSACTIONAL",
    "CompressionType",
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "ControlType",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "LogRecord",
    "LogWriter",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "TopicAndPartitions",
    "VersionedMessage",
    "compress",
    "consumer_group",
    "crc32c",
    "decode_control_key",
    "decode_end_transaction_marker",
    "decompress",
    "encode_batch",
    "encode_control_key",
    "encode_end_transaction_marker",
    "encode_versioned",
    "log_of_buffers",
    "read_batches",
    "segment_name",
    "share_group",
    "streams_group",
]
