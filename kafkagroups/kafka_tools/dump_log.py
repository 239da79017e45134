"""The text of Kafka's own dump tool, kafka-dump-log.sh, by version.

The text is byte for byte what the tool prints on stdout with `--offsets-decoder --print-data-log --deep-iteration`. It
ends where the tool crashes: at a batch with an impossible size or magic, and at a record without a key. Before 3.8, the
tool also crashes at a record that it cannot read. The table shows what changed in which version:

    0.10.2  one line for each record: "offset: 0 position: 0 … payloadsize: …"
    0.11    the same line, but the sizes of key and value come first; 1.0 added the producer's epoch
    2.2     one line for each batch, and one line "| offset: …" for each of its records
    2.8     the record's line repeats the fields of its batch; 3.0 removed this, and prints codec names in lower case
    3.2     the batch's line contains deleteHorizonMs
    3.3     the file's line begins with "Log starting offset"
    3.8     key and value are printed as Kafka's JSON (dump_json.py); before 3.8 as another text (dump_text.py)

Source: DumpLogSegments (tags 0.10.2.2 to 3.9.0, class files of 4.0.2 to 4.3.1), and the tools' captured output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TextIO

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.kafka_tools import dump_json, dump_text
from kafkagroups.kafka_tools.jvm import ToolCrashed, Version, format_nullable
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.batches import parse_batch
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.frames import FrameState, frames
from kafkagroups.log.segment_file import read_segment
from kafkagroups.log.segments import Log
from kafkagroups.records.control import ControlType, decode_control_key, decode_end_transaction_marker
from kafkagroups.records.versions import Dialect, build_dialect

OLDEST = (0, 10, 2)
_BYTES_UP_TO_MAGIC = 17
"""The bytes of a batch up to and including its magic. If at most this many remain in a file, the tool ignores them."""


def dump(log: Log, out: TextIO, kafka: Version) -> None:
    """Write what the tool of Kafka version `kafka` prints for the segments (files) of a log.

    Raises ToolCrashed where the tool crashes.
    """
    if kafka < OLDEST:
        raise UsageError("the dump tool's text is supported from Kafka 0.10.2 on")
    # Kafka's JSON came with the new coordinator's serializers, which the tool uses since 3.8.
    dialect = build_dialect("new" if kafka >= (3, 8) else "classic", kafka, ".".join(map(str, kafka)))
    for segment in log.segments:
        out.write(f"Dumping {segment}\n")
        name = os.path.basename(segment)
        stem = name.split(".")[0]
        if not re.fullmatch("[0-9]+", stem):
            raise ToolCrashed(f"{segment}: the file's name does not begin with an offset")
        out.write(f"{'Log starting' if kafka >= (3, 3) else 'Starting'} offset: {int(stem)}\n")
        data = read_segment(segment)
        end = 0
        for batch in _batches(data, segment):
            _dump_batch(batch, out, kafka, dialect)
            end = batch.position + batch.size
        if end < len(data):
            out.write(f"Found {len(data) - end} invalid bytes at the end of {name}\n")


def _batches(data: bytes, segment: str) -> Iterator[Batch]:
    """Yield the batches that the tool prints.

    The tool does not check checksums. It stops silently at an incomplete batch. Raises ToolCrashed at a batch with an
    impossible size or magic, because the tool crashes there.
    """
    for frame in frames(data):
        if frame.state is FrameState.INCOMPLETE or frame.size <= _BYTES_UP_TO_MAGIC:
            return
        if frame.state is not FrameState.WHOLE:
            raise ToolCrashed(str(frame.error(segment)))
        yield parse_batch(frame, data[frame.position : frame.end], segment)


def _dump_batch(batch: Batch, out: TextIO, kafka: Version, dialect: Dialect) -> None:
    try:
        if batch.compression is CompressionType.ZSTD and kafka < (2, 1):
            raise ToolCrashed(f"{batch.file}, byte {batch.position}: zstd came with Kafka 2.1")
        if kafka >= (2, 2):
            out.write(_batch_line(batch, kafka) + "\n")
        for record in batch.records:
            out.write(_record_line(batch, record, kafka))
            if not batch.is_control:
                out.write(_key_and_value(record, kafka, dialect))
            out.write("\n")
    except BadBytes as error:
        raise ToolCrashed(str(error)) from None


def _key_and_value(record: LogRecord, kafka: Version, dialect: Dialect) -> str:
    if dialect.coordinator == "new":
        return dump_json.format_key_and_value(record, dialect)
    return dump_text.format_key_and_value(record, kafka, dialect)


def _batch_line(batch: Batch, kafka: Version) -> str:
    if batch.magic >= 2:
        fields = (
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count} "
            f"baseSequence: {batch.base_sequence} lastSequence: {_last_sequence(batch)} "
            f"producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch} "
            f"partitionLeaderEpoch: {batch.partition_leader_epoch} "
            f"isTransactional: {_bool(batch.is_transactional)} isControl: {_bool(batch.is_control)}"
        )
        if kafka >= (3, 2):
            horizon = batch.delete_horizon_ms
            fields += f" deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}"
    else:
        fields = f"offset: {batch.last_offset}"
    codec = batch.compression.name.lower() if kafka >= (3,) else batch.compression.name
    return (
        f"{fields} position: {batch.position} {batch.timestamp_type}: {batch.max_timestamp} size: {batch.size} "
        f"magic: {batch.magic} compresscodec: {codec} crc: {batch.crc} isvalid: {_bool(batch.is_valid)}"
    )


def _record_line(batch: Batch, record: LogRecord, kafka: Version) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    timestamp = f"{batch.timestamp_type}: {record.timestamp}"
    codec = batch.compression.name
    header_keys = ",".join(key.decode("utf-8", "kafkagroups.java") for key, _ in record.headers)
    if kafka < (2, 2):
        return _record_line_before_2_2(batch, record, kafka, key_size, value_size, header_keys)
    if kafka < (2, 8) or kafka >= (3,):
        size_label = "size" if kafka < (2, 8) else "Size"
        line = f"| offset: {record.offset} {timestamp} key{size_label}: {key_size} value{size_label}: {value_size}"
    else:
        line = (
            f"| offset: {record.offset} isValid: {_bool(record.is_valid)} crc: {format_nullable(record.crc)} "
            f"keySize: {key_size} valueSize: {value_size} {timestamp} "
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} baseSequence: {batch.base_sequence} "
            f"lastSequence: {_last_sequence(batch)} producerEpoch: {batch.producer_epoch} "
            f"partitionLeaderEpoch: {batch.partition_leader_epoch} batchSize: {batch.size} magic: {batch.magic} "
            f"compressType: {codec} position: {batch.position}"
        )
    if batch.magic >= 2:
        line += f" sequence: {record.sequence} headerKeys: [{header_keys}]"
    elif kafka < (3,):
        line += f" crc: {record.crc} isvalid: {_bool(record.is_valid)}"
    else:
        # Before 4.3, the tool prints a closing brace by mistake.
        brace = "}" if kafka < (4, 3) else ""
        line += f" isValid: {_bool(record.is_valid)} crc: {record.crc}{brace}"
    return line + _control_suffix(batch, record, kafka)


def _record_line_before_2_2(
    batch: Batch, record: LogRecord, kafka: Version, key_size: int, value_size: int, header_keys: str
) -> str:
    """Return a record's line in the format before 2.2, in which batches have no line of their own."""
    line = (
        f"offset: {record.offset} position: {batch.position} {batch.timestamp_type}: {record.timestamp} "
        f"isvalid: {_bool(record.is_valid)} "
    )
    batch_fields = f"magic: {batch.magic} compresscodec: {batch.compression.name}"
    if kafka < (0, 11):
        line += f"payloadsize: {value_size} {batch_fields} crc: {record.crc}"
        return line if record.key is None else f"{line} keysize: {key_size}"
    line += f"keysize: {key_size} valuesize: {value_size} {batch_fields}"
    if batch.magic < 2:
        return f"{line} crc: {record.crc}"
    epoch = f"producerEpoch: {batch.producer_epoch} " if kafka >= (1,) else ""
    line += f" producerId: {batch.producer_id} {epoch}sequence: {record.sequence}"
    line += f" isTransactional: {_bool(batch.is_transactional)} headerKeys: [{header_keys}]"
    return line + _control_suffix(batch, record, kafka)


def _control_suffix(batch: Batch, record: LogRecord, kafka: Version) -> str:
    """Return the end of a control record's line; "" for other records."""
    if not batch.is_control:
        return ""
    control_type = decode_control_key(record.key)
    if control_type in (ControlType.COMMIT, ControlType.ABORT):
        return f" endTxnMarker: {control_type.name} coordinatorEpoch: {decode_end_transaction_marker(record.value)}"
    name = control_type.name if kafka >= (3,) else "UNKNOWN"
    return f" controlType: {name}({int.from_bytes((record.key or b'')[2:4], 'big', signed=True)})"


def _last_sequence(batch: Batch) -> int:
    if batch.base_sequence < 0:
        return batch.base_sequence
    # After the largest int, sequence numbers begin again at 0.
    return (batch.base_sequence + batch.last_offset - batch.base_offset) & 0x7FFFFFFF


def _bool(value: bool) -> str:
    return "true" if value else "false"
