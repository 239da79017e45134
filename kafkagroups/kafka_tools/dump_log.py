"""The text of Kafka's own dump tool, kafka-dump-log.sh, by version.

The text is byte for byte what the tool prints on stdout with `--offsets-decoder --print-data-log --deep-iteration`. It
ends where the tool crashes: at a batch with an impossible length or magic, or at a record without a key, and before 3.8
also at a record that it cannot read. Each line of the table begins with the first version that has the change:

    0.10.2  one line for each record: "offset: 0 position: 0 … payloadsize: …"
    0.11    the sizes of key and value, "keysize: … valuesize: …", are next to each other and before "magic: …"
    1.0     the record's line contains the producer's epoch
    2.2     one line for each batch, and one line "| offset: …" for each record of the batch
    2.8     the record's line repeats the fields of the batch
    3.0     the record's line has no fields of the batch; names of codecs are in lower case
    3.2     the batch's line contains deleteHorizonMs
    3.3     the first line of a file is "Log starting offset: …" instead of "Starting offset: …"
    3.8     key and value are printed as Kafka's JSON; before 3.8, as another text (formatters.py)

Source: DumpLogSegments (tags 0.10.2.2 to 3.9.0, class files of 4.0.2 to 4.3.1); the tools' captured output.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.kafka_tools.formatters import ToolCrashed, format_json_pair, format_nullable, format_text_pair
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.batches import parse_batch
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.segment_file import Frame, FrameState, SegmentFile, open_segment, read_frames
from kafkagroups.log.segments import WHOLE_LOG, Log, RecordRange
from kafkagroups.records.releases import Dialect, Version, build_dialect
from kafkagroups.records.serde import ControlType, decode_control_key, decode_end_transaction_marker
from kafkagroups.records.wire import decode_utf8

OLDEST = (0, 10, 2)
"""The oldest Kafka version whose text this module can write."""
_BYTES_UP_TO_MAGIC = 17
"""The bytes of a batch up to the end of its magic. The tool ignores as many or fewer at the end of a file."""


def dump(log: Log, kafka: Version, record_range: RecordRange = WHOLE_LOG) -> Iterator[str]:
    """Yield what the tool of the version `kafka` prints for the segments of a log: lines, or parts of a line.

    The tool itself has no range: here, only the records in `record_range` are printed, and no batch without one of
    them. Raises ToolCrashed where the tool crashes, BatchTooLarge before a batch above the log's `max_batch_bytes`, and
    UsageError if the version is older than `OLDEST`.
    """
    if kafka < OLDEST:
        raise UsageError("the dump tool's text is supported from Kafka 0.10.2 on")
    # Since 3.8, the tool reads records with the rules of the new coordinator.
    dialect = build_dialect("new" if kafka >= (3, 8) else "classic", kafka, ".".join(map(str, kafka)))
    for segment in log.segments:
        yield f"Dumping {segment}\n"
        file_name = os.path.basename(segment)
        base_offset = file_name.split(".")[0]
        if not re.fullmatch("[0-9]+", base_offset):
            raise ToolCrashed(f"{segment}: the file's name does not begin with an offset")
        yield f"{'Log starting' if kafka >= (3, 3) else 'Starting'} offset: {int(base_offset)}\n"
        end = 0
        with open_segment(segment) as file:
            for frame, data in _read_whole_frames(file, segment, log.max_batch_bytes):
                batch = parse_batch(frame, data, segment, log.max_batch_bytes)
                if record_range.stop.excludes(batch):
                    return
                if not record_range.is_before(batch):
                    batch.check_size()
                    yield from _dump_batch(batch, kafka, dialect, record_range)
                end = frame.end
            if end < file.end:
                yield f"Found {file.end - end} invalid bytes at the end of {file_name}\n"


def _read_whole_frames(file: SegmentFile, segment: str, max_batch_bytes: int) -> Iterator[tuple[Frame, bytes]]:
    """The tool does not check checksums. At an incomplete batch, it ends the segment without an error. Raises
    ToolCrashed at a batch with an impossible length or magic.
    """
    for frame, data in read_frames(file, max_batch_bytes=max_batch_bytes):
        if frame.state is FrameState.TOO_LARGE:
            raise frame.make_error(segment)
        if frame.state is FrameState.INCOMPLETE or file.end - frame.position <= _BYTES_UP_TO_MAGIC:
            return
        if frame.state is not FrameState.WHOLE:
            raise ToolCrashed(str(frame.make_error(segment)))
        yield frame, data


def _dump_batch(batch: Batch, kafka: Version, dialect: Dialect, record_range: RecordRange) -> Iterator[str]:
    try:
        if batch.compression is CompressionType.ZSTD and kafka < (2, 1):
            raise ToolCrashed(f"{batch.file}, byte {batch.position}: zstd is supported from Kafka 2.1 on")
        if record_range.has_start and not record_range.select_records(batch):
            return
        if kafka >= (2, 2):
            yield _format_batch_line(batch, kafka) + "\n"
        for record in record_range.select_records(batch):
            # A tool that crashes at a record has printed the first part of its line.
            yield _format_record_line(batch, record, kafka)
            if not batch.is_control and dialect.coordinator == "new":
                yield format_json_pair(record, dialect)
            elif not batch.is_control:
                yield format_text_pair(record, kafka, dialect)
            yield "\n"
    except BadBytes as error:
        raise ToolCrashed(str(error)) from None


def _format_batch_line(batch: Batch, kafka: Version) -> str:
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


def _format_record_line(batch: Batch, record: LogRecord, kafka: Version) -> str:
    key_size = -1 if record.key is None else len(record.key)
    value_size = -1 if record.value is None else len(record.value)
    timestamp = f"{batch.timestamp_type}: {record.timestamp}"
    header_keys = ",".join(decode_utf8(key) for key, _ in record.headers)
    if kafka < (2, 2):
        return _format_record_line_before_2_2(batch, record, kafka, key_size, value_size, header_keys)
    if kafka < (2, 8):
        line = f"| offset: {record.offset} {timestamp} keysize: {key_size} valuesize: {value_size}"
    elif kafka >= (3,):
        line = f"| offset: {record.offset} {timestamp} keySize: {key_size} valueSize: {value_size}"
    else:
        line = (
            f"| offset: {record.offset} isValid: {_bool(record.is_valid)} crc: {format_nullable(record.crc)} "
            f"keySize: {key_size} valueSize: {value_size} {timestamp} "
            f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset} baseSequence: {batch.base_sequence} "
            f"lastSequence: {_last_sequence(batch)} producerEpoch: {batch.producer_epoch} "
            f"partitionLeaderEpoch: {batch.partition_leader_epoch} batchSize: {batch.size} magic: {batch.magic} "
            f"compressType: {batch.compression.name} position: {batch.position}"
        )
    if batch.magic >= 2:
        line += f" sequence: {record.sequence} headerKeys: [{header_keys}]"
    elif kafka < (3,):
        line += f" crc: {record.crc} isvalid: {_bool(record.is_valid)}"
    else:
        # Before 4.3, the tool prints a closing brace here, although there is no opening brace.
        brace = "}" if kafka < (4, 3) else ""
        line += f" isValid: {_bool(record.is_valid)} crc: {record.crc}{brace}"
    return line + _control_suffix(batch, record, kafka)


def _format_record_line_before_2_2(
    batch: Batch, record: LogRecord, kafka: Version, key_size: int, value_size: int, header_keys: str
) -> str:
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
    if not batch.is_control:
        return ""
    control_type = decode_control_key(record.key)
    if control_type in (ControlType.COMMIT, ControlType.ABORT):
        epoch = decode_end_transaction_marker(record.value)
        return f" endTxnMarker: {control_type.name} coordinatorEpoch: {epoch}"
    name = control_type.name if kafka >= (3,) else "UNKNOWN"
    key = record.key or b""
    type_number = int.from_bytes(key[2:4], "big", signed=True)  # The number after the key's version of two bytes.
    return f" controlType: {name}({type_number})"


def _last_sequence(batch: Batch) -> int:
    if batch.base_sequence < 0:
        return batch.base_sequence
    # After the largest int32, sequence numbers begin again at 0.
    return (batch.base_sequence + batch.last_offset - batch.base_offset) & 0x7FFFFFFF


def _bool(value: bool) -> str:
    return "true" if value else "false"
