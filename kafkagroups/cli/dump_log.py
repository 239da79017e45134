"""The text of Kafka 4.3.1's own dump tool: `kafka-dump-log.sh --offsets-decoder --print-data-log`.

Byte for byte, but for what the tool says of record types that this package does not decode yet.
Source: DumpLogSegments.java, OffsetsMessageParser.java (4.3.1).
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterator
from typing import Any, TextIO

from kafkagroups.errors import BadBytes, InvalidLog, InvalidRecord
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.message_set import OVERHEAD
from kafkagroups.log.segments import Log, batch_at, read_segment
from kafkagroups.records.consumer_protocol import decode_assignment, decode_subscription
from kafkagroups.records.control import ControlType, decode_control_key, decode_end_transaction_marker
from kafkagroups.records.group_metadata import GroupMetadataValue
from kafkagroups.records.serde import Record, Unread, decode, key_to_json, value_to_json
from kafkagroups.records.structs import to_json


class ToolDied(Exception):
    """Kafka's tool ends here, with all that it had still to do."""


def dump(log: Log, out: TextIO) -> None:
    """Writes what the tool prints for each segment of a log. ToolDied where it would die."""
    for segment in log.segments:
        out.write(f"Dumping {segment}\n")
        name = os.path.basename(segment)
        stem = name.split(".")[0]
        if not re.fullmatch("[0-9]+", stem):
            raise ToolDied(f"{segment}: the file's name begins with no offset")
        out.write(f"Log starting offset: {int(stem)}\n")
        end, data = 0, read_segment(segment)
        for batch in _batches(data, segment):
            _dump_batch(batch, out)
            end = batch.position + batch.size
        if end < len(data):
            out.write(f"Found {len(data) - end} invalid bytes at the end of {name}\n")


def _batches(data: bytes, segment: str) -> Iterator[Batch]:
    """The tool's framing: it minds neither a checksum nor a batch that is not whole, only an impossible size."""
    position = 0
    while position + 17 < len(data):
        (size,) = struct.unpack_from(">i", data, position + 8)
        if size >= OVERHEAD and position + 12 + size > len(data):
            return
        try:
            batch = batch_at(data, position, segment)
        except InvalidLog as error:
            raise ToolDied(f"{segment}, byte {position}: {error.reason}") from None
        yield batch
        position += batch.size


def _dump_batch(batch: Batch, out: TextIO) -> None:
    out.write(_batch_line(batch) + "\n")
    try:
        for record in batch.records:
            out.write(f"| {_record_line(batch, record)}")
            if not batch.is_control:
                if record.key is None:
                    raise ToolDied(f"{batch.file}: the record at offset {record.offset} has no key")
                out.write(_contents(record))
            out.write("\n")
    except BadBytes as error:
        raise ToolDied(str(error)) from None


def _batch_line(batch: Batch) -> str:
    if batch.magic >= 2:
        horizon = batch.delete_horizon_ms
        last_sequence = batch.base_sequence
        if last_sequence >= 0:
            last_sequence = (last_sequence + batch.last_offset - batch.base_offset) & 0x7FFFFFFF
        start = (
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count} "
            f"baseSequence: {batch.base_sequence} lastSequence: {last_sequence} producerId: {batch.producer_id} "
            f"producerEpoch: {batch.producer_epoch} partitionLeaderEpoch: {batch.partition_leader_epoch} "
            f"isTransactional: {_bool(batch.is_transactional)} isControl: {_bool(batch.is_control)} "
            f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}"
        )
    else:
        start = f"offset: {batch.last_offset}"
    return (
        f"{start} position: {batch.position} {batch.timestamp_type}: {batch.max_timestamp} size: {batch.size} "
        f"magic: {batch.magic} compresscodec: {batch.compression.name.lower()} crc: {batch.crc} "
        f"isvalid: {_bool(batch.is_valid)}"
    )


def _record_line(batch: Batch, record: LogRecord) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    line = f"offset: {record.offset} {batch.timestamp_type}: {record.timestamp} keySize: {key_size}"
    line += f" valueSize: {value_size}"
    if batch.magic >= 2:
        keys = ",".join(key.decode("utf-8", "kafkagroups.java") for key, _ in record.headers)
        line += f" sequence: {record.sequence} headerKeys: [{keys}]"
    elif record.crc is not None:
        line += f" isValid: {_bool(record.is_valid)} crc: {record.crc}"
    if batch.is_control:
        kind = decode_control_key(record.key)
        if kind in (ControlType.COMMIT, ControlType.ABORT):
            line += f" endTxnMarker: {kind.name} coordinatorEpoch: {decode_end_transaction_marker(record.value)}"
        else:
            line += f" controlType: {kind.name}({int.from_bytes((record.key or b'')[2:4], 'big', signed=True)})"
    return line


def _contents(log_record: LogRecord) -> str:
    try:
        record = decode(log_record.key, log_record.value)
    except InvalidRecord as error:
        return f" key: Error at offset {log_record.offset}, skipping. {error.reason}"
    if isinstance(record.key, Unread):
        return f" key: Unknown record type {record.type} at offset {log_record.offset}, skipping."
    value = "<DELETE>" if record.value is None else _text(_value(record))
    return f" key: {_text(key_to_json(record))} payload: {value}"


def _value(record: Record) -> dict[str, Any] | None:
    """Kafka's JSON; the bytes inside the members of a consumer group are read where they can be."""
    shown = value_to_json(record)
    if isinstance(record.value, GroupMetadataValue) and record.value.protocol_type == "consumer" and shown:
        for member, json_member in zip(record.value.members, shown["data"]["members"], strict=True):
            for name, read, data in (
                ("subscription", decode_subscription, member.subscription),
                ("assignment", decode_assignment, member.assignment),
            ):
                try:
                    embedded = read(data)
                    json_member[name] = to_json(embedded.message, embedded.version)
                except InvalidRecord:
                    pass
    return shown


def _text(value: Any) -> str:
    """JSON as Jackson prints it: without spaces, other characters than ASCII as they are, \\u escapes in capitals."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub(r"(?<!\\)((?:\\\\)*\\u)([0-9a-f]{4})", lambda m: m[1] + m[2].upper(), text)


def _bool(value: bool) -> str:
    return "true" if value else "false"
