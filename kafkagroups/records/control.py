"""Control records: the markers that commit or abort a transaction.

A control record is alone in its batch, a control batch. Kafka has more types of control records, but
`__consumer_offsets` has only ABORT and COMMIT:

    key      int16 version, int16 type (0 abort, 1 commit)
    value    int16 version, int32 epoch of the transaction coordinator (counts the coordinator's leader changes)

Versions above 0 are read like version 0.
Source (4.3.1): ControlRecordType.java; EndTransactionMarker.java; EndTxnMarker.json.
"""

from __future__ import annotations

import struct
from enum import Enum

from kafkagroups.errors import InvalidRecord
from kafkagroups.records.wire import INT32


class ControlType(Enum):
    """The types of control records, with the names and numbers of Kafka's ControlRecordType."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


_TYPE_BY_NUMBER = {control_type.value: control_type for control_type in ControlType}


def decode_control_key(key: bytes | None) -> ControlType:
    """Return the type in the key of a control record; UNKNOWN if Kafka has no type with this number.

    Raises InvalidRecord if the key is null, is too short, or has a negative version.
    """
    _, number = _unpack(">hh", key, "control key")
    return _TYPE_BY_NUMBER.get(number, ControlType.UNKNOWN)


def encode_control_key(control_type: ControlType) -> bytes:
    if control_type is ControlType.UNKNOWN:
        raise ValueError("expected a known type of control record, found UNKNOWN")
    return struct.pack(">hh", 0, control_type.value)


def decode_end_transaction_marker(value: bytes | None) -> int:
    """Return the epoch of the transaction coordinator, which is in the value of a commit or abort marker.

    Raises InvalidRecord if the value is null, is too short, or has a negative version.
    """
    _, epoch = _unpack(">hi", value, "marker value")
    return epoch


def encode_end_transaction_marker(coordinator_epoch: int) -> bytes:
    return struct.pack(">hi", 0, INT32.check(coordinator_epoch))


def _unpack(struct_format: str, data: bytes | None, field: str) -> tuple[int, int]:
    needed_bytes = struct.calcsize(struct_format)
    if data is None or len(data) < needed_bytes:
        found = "null" if data is None else f"{len(data)} bytes"
        raise InvalidRecord(f"expected at least {needed_bytes} bytes, found {found}", field=field)
    version, number = struct.unpack_from(struct_format, data)
    if version < 0:
        raise InvalidRecord(f"expected a version of 0 or above, found {version}", field=field)
    return version, number
