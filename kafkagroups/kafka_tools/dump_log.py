"""The text of Kafka's own dump tool, kafka-dump-log.sh, by version.

It is byte for byte what `--offsets-decoder --print-data-log --deep-iteration` prints on stdout. The text ends where the
tool ends: at an impossible batch, at a record without a key, and before 3.8 at a record that it cannot read.

    0.10.2  one line for each record: "offset: 0 position: 0 … payloadsize: …"
    0.11    the same, but the sizes of key and value come first; 1.0 added the producer's epoch
    2.2     one line for each batch, then one line "| offset: …" for each record
    2.8     the record's line repeats its batch; 3.0 removed that, and prints codecs in small letters
    3.2     deleteHorizonMs
    3.3     "Log starting offset"
    3.8     key and value are Kafka's JSON (dump_json.py); before, they have their own text (dump_text.py)

Source: DumpLogSegments (tags 0.10.2.2 to 3.9.0, class files of 4.0.2 to 4.3.1), and the tools' captured output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TextIO

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.kafka_tools import dump_json, dump_text
from kafkagroups.kafka_tools.jvm import ToolDied, Version, format_reference
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.batches import parse_batch
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.frames import FrameState, frames
from kafkagroups.log.segment_file import read_segment
from kafkagroups.log.segments import Log
from kafkagroups.records.control import ControlType, decode_control_key, decode_end_transaction_marker
from kafkagroups.records.versions import Dialect, build_dialect

OLDEST = (0, 10, 2)
_UP_TO_MAGIC = 17
"""The tool does not look at so few bytes at the end of a file."""


def dump(log: Log, out: TextIO, kafka: Version) -> None:
    """Write what this Kafka version's tool prints for each segment of a log. ToolDied: the tool ends here."""
    if kafka < OLDEST:
        raise UsageError("the dump tool's text is supported from Kafka 0.10.2 on")
    rules = build_dialect("new" if kafka >= (3, 8) else "classic", kafka, ".".join(map(str, kafka)))
    for segment in log.segments:
        out.write(f"Dumping {segment}\n")
        name = os.path.basename(segment)
        stem = name.split(".")[0]
        if not re.fullmatch("[0-9]+", stem):
            raise ToolDied(f"{segment}: the file's name does not begin with an offset")
        out.write(f"{'Log starting' if kafka >= (3, 3) else 'Starting'} offset: {int(stem)}\n")
        data = read_segment(segment)
        end = 0
        for batch in _batches(data, segment):
            _dump_batch(batch, out, kafka, rules)
            end = batch.position + batch.size
        if end < len(data):
            out.write(f"Found {len(data) - end} invalid bytes at the end of {name}\n")


def _batches(data: bytes, segment: str) -> Iterator[Batch]:
    """Yield the batches that the tool prints.

    It does not check checksums and stops silently at a batch that is not whole. It dies at an impossible size or magic.
    """
    for frame in frames(data):
        if frame.state is FrameState.INCOMPLETE or frame.size <= _UP_TO_MAGIC:
            return
        if frame.state is not FrameState.WHOLE:
            raise ToolDied(str(frame.error(segment)))
        yield parse_batch(frame, data[frame.position : frame.end], segment)


def _dump_batch(batch: Batch, out: TextIO, kafka: Version, rules: Dialect) -> None:
    try:
        if batch.compression is CompressionType.ZSTD and kafka < (2, 1):
            raise ToolDied(f"{batch.file}, byte {batch.position}: zstd came with Kafka 2.1")
        if kafka >= (2, 2):
            out.write(_batch_line(batch, kafka) + "\n")
        for record in batch.records:
            out.write(_record_line(batch, record, kafka))
            if not batch.is_control:
                out.write(_contents(record, kafka, rules))
            out.write("\n")
    except BadBytes as error:
        raise ToolDied(str(error)) from None


def _contents(record: LogRecord, kafka: Version, rules: Dialect) -> str:
    if rules.coordinator == "new":
        return dump_json.format_contents(record, rules)
    return dump_text.format_contents(record, kafka, rules)


def _batch_line(batch: Batch, kafka: Version) -> str:
    if batch.magic >= 2:
        start = (
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} count: {batch.count} "
            f"baseSequence: {batch.base_sequence} lastSequence: {_last_sequence(batch)} "
            f"producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch} "
            f"partitionLeaderEpoch: {batch.partition_leader_epoch} "
            f"isTransactional: {_bool(batch.is_transactional)} isControl: {_bool(batch.is_control)}"
        )
        if kafka >= (3, 2):
            horizon = batch.delete_horizon_ms
            start += f" deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}"
    else:
        start = f"offset: {batch.last_offset}"
    codec = batch.compression.name.lower() if kafka >= (3,) else batch.compression.name
    return (
        f"{start} position: {batch.position} {batch.timestamp_type}: {batch.max_timestamp} size: {batch.size} "
        f"magic: {batch.magic} compresscodec: {codec} crc: {batch.crc} isvalid: {_bool(batch.is_valid)}"
    )


def _record_line(batch: Batch, record: LogRecord, kafka: Version) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    time = f"{batch.timestamp_type}: {record.timestamp}"
    codec = batch.compression.name
    keys = ",".join(key.decode("utf-8", "kafkagroups.java") for key, _ in record.headers)
    if kafka < (2, 2):
        return _flat_line(batch, record, kafka, f"{time} isvalid: {_bool(record.is_valid)}", key_size, value_size, keys)
    if kafka < (2, 8) or kafka >= (3,):
        word = "size" if kafka < (2, 8) else "Size"
        line = f"| offset: {record.offset} {time} key{word}: {key_size} value{word}: {value_size}"
    else:
        line = (
            f"| offset: {record.offset} isValid: {_bool(record.is_valid)} crc: {format_reference(record.crc)} "
            f"keySize: {key_size} valueSize: {value_size} {time} "
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} baseSequence: {batch.base_sequence} "
            f"lastSequence: {_last_sequence(batch)} producerEpoch: {batch.producer_epoch} "
            f"partitionLeaderEpoch: {batch.partition_leader_epoch} batchSize: {batch.size} magic: {batch.magic} "
            f"compressType: {codec} position: {batch.position}"
        )
    if batch.magic >= 2:
        line += f" sequence: {record.sequence} headerKeys: [{keys}]"
    elif kafka < (3,):
        line += f" crc: {record.crc} isvalid: {_bool(record.is_valid)}"
    else:
        line += f" isValid: {_bool(record.is_valid)} crc: {record.crc}" + "}" * (kafka < (4, 3))
    return line + _control(batch, record, kafka)


def _flat_line(
    batch: Batch, record: LogRecord, kafka: Version, time: str, key_size: int, value_size: int, keys: str
) -> str:
    line = f"offset: {record.offset} position: {batch.position} {time} "
    about = f"magic: {batch.magic} compresscodec: {batch.compression.name}"
    if kafka < (0, 11):
        line += f"payloadsize: {value_size} {about} crc: {record.crc}"
        return line if record.key is None else f"{line} keysize: {key_size}"
    line += f"keysize: {key_size} valuesize: {value_size} {about}"
    if batch.magic < 2:
        return f"{line} crc: {record.crc}"
    epoch = f"producerEpoch: {batch.producer_epoch} " if kafka >= (1,) else ""
    line += f" producerId: {batch.producer_id} {epoch}sequence: {record.sequence}"
    line += f" isTransactional: {_bool(batch.is_transactional)} headerKeys: [{keys}]"
    return line + _control(batch, record, kafka)


def _control(batch: Batch, record: LogRecord, kafka: Version) -> str:
    if not batch.is_control:
        return ""
    kind = decode_control_key(record.key)
    if kind in (ControlType.COMMIT, ControlType.ABORT):
        return f" endTxnMarker: {kind.name} coordinatorEpoch: {decode_end_transaction_marker(record.value)}"
    name = kind.name if kafka >= (3,) else "UNKNOWN"
    return f" controlType: {name}({int.from_bytes((record.key or b'')[2:4], 'big', signed=True)})"


def _last_sequence(batch: Batch) -> int:
    if batch.base_sequence < 0:
        return batch.base_sequence
    return (batch.base_sequence + batch.last_offset - batch.base_offset) & 0x7FFFFFFF


def _bool(value: bool) -> str:
    return "true" if value else "false"
