"""What tests need to make a log by hand: records, batches of every format, markers, and the files of a partition.

Whoever builds bytes reaches below the public names, so all tests do it through this module, and a change inside the
package meets them in one place.
"""

from kafkagroups.log.batch import CONTROL, DELETE_HORIZON, NO_PRODUCER_ID, TRANSACTIONAL, LogRecord, encode_batch
from kafkagroups.log.compression import CompressionType, compress
from kafkagroups.log.segment_file import segment_name
from kafkagroups.log.writer import LogWriter
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
    encode_control_key,
    encode_end_transaction_marker,
)
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue

__all__ = [
    "CONTROL",
    "DELETE_HORIZON",
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
    "decode_control_key",
    "encode_batch",
    "encode_control_key",
    "encode_end_transaction_marker",
    "encode_versioned",
    "segment_name",
]
