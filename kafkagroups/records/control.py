"""Control records: the markers that end a transaction.

A control batch holds one record. Key: int16 version, int16 type (0 abort, 1 commit, others are not for this topic).
Value of abort and commit: int16 version, int32 epoch of the transaction coordinator. Any version from 0 on is read as
0, trailing bytes are ignored. Source: ControlRecordType.java, EndTransactionMarker.java, EndTxnMarker.json (4.3.1).
"""

from __future__ import annotations

import struct
from enum import Enum

from kafkagroups.errors import InvalidRecord


class ControlType(Enum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


_known = {kind.value: kind for kind in ControlType}


def decode_control_key(key: bytes | None) -> ControlType:
    """The type of a control record. InvalidRecord when the key is null, too short or of a negative version."""
    if key is None or len(key) < 4:
        found = "null" if key is None else f"{len(key)}"
        raise InvalidRecord(f"at least 4 bytes were expected, found {found}", field="control key")
    version, kind = struct.unpack_from(">hh", key)
    if version < 0:
        raise InvalidRecord(f"a version of 0 or above was expected, found {version}", field="control key")
    return _known.get(kind, ControlType.UNKNOWN)


def encode_control_key(kind: ControlType) -> bytes:
    """The key of a control record of this type; UNKNOWN has none (ValueError)."""
    if kind is ControlType.UNKNOWN:
        raise ValueError("an unknown control type cannot be written")
    return struct.pack(">hh", 0, kind.value)


def decode_end_transaction_marker(value: bytes | None) -> int:
    """The coordinator epoch in the value of a commit or abort marker."""
    if value is None or len(value) < 6:
        found = "null" if value is None else f"{len(value)}"
        raise InvalidRecord(f"at least 6 bytes were expected, found {found}", field="marker value")
    version, epoch = struct.unpack_from(">hi", value)
    if version < 0:
        raise InvalidRecord(f"a version of 0 or above was expected, found {version}", field="marker value")
    return int(epoch)


def encode_end_transaction_marker(coordinator_epoch: int) -> bytes:
    """The value of a commit or abort marker."""
    return struct.pack(">hi", 0, coordinator_epoch)
