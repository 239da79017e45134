"""The dump tool's text of plain batches since 3.8, made faster than by dump_log.py and dump_json.py.

A plain batch has magic 2, is not compressed, is no control batch, and its records have keys and no headers. Most
batches of the topic are plain, and most of their records are commits (record type 1). The text of each key is made
once. A value of version 3 or 4 is not decoded into an object. For everything else, this module uses dump_json.py, or
leaves the batch to dump_log.py. The text is the same: tests compare them.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from kafkagroups.errors import BadBytes
from kafkagroups.kafka_tools import dump_json
from kafkagroups.kafka_tools.jvm import ToolCrashed, format_json
from kafkagroups.log.batch import CODEC, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, LogRecord
from kafkagroups.log.record_batch import CRC_FROM, HEADER, HEADER_SIZE, MAX_VARLONG_BYTES, read_varint
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_types import newest_value_version
from kafkagroups.records.text import decode_utf8, uuid_text

FIRST_VERSION = (3, 8)
"""The oldest Kafka version whose text this module makes."""
_COMMIT_TYPE = b"\0\1"
"""The first bytes of the key of a commit."""
MAX_BATCH_BYTES = 1024 * 1024
"""Larger batches are left to dump_log.py, so that the text of a batch always fits into the memory."""
_MAX_KEPT_CHARACTERS = 100_000_000
"""The largest number of bytes of keys, and of characters of their texts, that are kept."""
_MAX_SUM_PART = 2**61
"""The sum of two numbers up to this one does not overflow."""
_value_start = struct.Struct(">hqi")
"""The first fields of a commit's value since version 3: version, offset and leader epoch."""
_short_value = struct.Struct(">hqihq")
"""A commit's value of version 3 without metadata: version, offset, leader epoch, size of the metadata, timestamp."""
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_MAX_SHORT_SIZE = 0x7E
_TOPIC_ID_TAG = b"\1\0\x10"
"""A tag section with one tag: the topic id, with tag number 0 and 16 bytes."""
_NO_TOPIC_ID = bytes(16)


class PlainBatches:
    """Formats the plain batches of a log. `dialect` has the rules by which the tool reads records."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._reads_version_4 = newest_value_version(dialect, 1) >= 4
        self._reads_topic_ids = dialect.version >= (4, 1)
        self._text_by_key: dict[bytes, str] = {}
        """The text of each key of a commit, up to its value; "" for other keys."""
        self._text_by_name: dict[bytes, str] = {}
        """The JSON of each group id and each topic name."""
        self._kept_characters = 0

    def format(self, data: bytes, position: int) -> str | None:
        """Return the lines of a batch and its records; None if dump_log.py must format the batch.

        `data` contains the whole batch, and `position` is where it begins in the file.
        """
        if len(data) > MAX_BATCH_BYTES:
            return None
        try:
            return self._format(data, position)
        except (IndexError, struct.error, ToolCrashed, BadBytes):
            return None

    def _format(self, data: bytes, position: int) -> str | None:
        (
            base_offset,
            _,
            leader_epoch,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        ) = HEADER.unpack_from(data)
        if magic != 2 or attributes & (CODEC | CONTROL) or count < 0:
            return None
        if abs(base_offset) > _MAX_SUM_PART or abs(base_timestamp) > _MAX_SUM_PART:
            return None
        append_time = max_timestamp if attributes & LOG_APPEND_TIME else None
        time_name = "CreateTime" if append_time is None else "LogAppendTime"
        last_sequence = base_sequence
        if base_sequence >= 0:
            last_sequence = (base_sequence + last_offset_delta) & 0x7FFFFFFF
        lines = [
            f"baseOffset: {base_offset} lastOffset: {base_offset + last_offset_delta} count: {count} "
            f"baseSequence: {base_sequence} lastSequence: {last_sequence} "
            f"producerId: {producer_id} producerEpoch: {producer_epoch} partitionLeaderEpoch: {leader_epoch} "
            f"isTransactional: {'true' if attributes & TRANSACTIONAL else 'false'} isControl: false deleteHorizonMs: "
            f"{f'OptionalLong[{base_timestamp}]' if attributes & DELETE_HORIZON else 'OptionalLong.empty'} "
            f"position: {position} {time_name}: {max_timestamp} size: {len(data)} magic: 2 compresscodec: none "
            f"crc: {crc} isvalid: {'true' if crc32c(memoryview(data)[CRC_FROM:]) == crc else 'false'}\n"
        ]
        text_by_key = self._text_by_key
        end = HEADER_SIZE
        for _ in range(count):
            size, start = _read_size(data, end)
            end = start + size
            timestamp_delta = data[start + 1]
            start += 2
            if timestamp_delta < 0x80:
                timestamp_delta = timestamp_delta >> 1 ^ -(timestamp_delta & 1)
            else:
                timestamp_delta, start = read_varint(data, start - 1, MAX_VARLONG_BYTES)
                if abs(timestamp_delta) > _MAX_SUM_PART:
                    return None
            offset_delta = data[start]
            start += 1
            if offset_delta < 0x80:
                offset_delta = offset_delta >> 1 ^ -(offset_delta & 1)
            else:
                offset_delta, start = read_varint(data, start - 1)
            key_size = data[start]
            start += 1
            if key_size & 0x81:
                key_size, start = _read_size(data, start - 1)
            else:
                key_size >>= 1
            key = data[start : start + key_size]
            start += key_size
            value_size = data[start]
            start += 1
            if value_size == 1:  # The varint of -1, which means null.
                value = None
                value_size = -1
            else:
                if value_size & 0x81:
                    value_size, start = _read_size(data, start - 1)
                else:
                    value_size >>= 1
                value = data[start : start + value_size]
                start += value_size
            if data[start] or start + 1 != end:  # The record has headers, or its sizes do not add up.
                return None
            offset = base_offset + offset_delta
            timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
            sequence = (base_sequence + offset_delta) & 0x7FFFFFFF if base_sequence >= 0 else -1
            key_text = text_by_key.get(key)
            if key_text is None:
                key_text = self._format_key(key)
            value_text = self._format_value(value) if key_text else None
            if value_text is None:
                record = LogRecord(offset, timestamp, key, value)
                key_text = dump_json.format_key_and_value(record, self._dialect)
                value_text = ""
            lines.append(
                f"| offset: {offset} {time_name}: {timestamp} keySize: {key_size} valueSize: {value_size} "
                f"sequence: {sequence} headerKeys: []{key_text}{value_text}\n"
            )
        return "".join(lines) if end == len(data) or not count else None

    def _format_key(self, key: bytes) -> str:
        """Return the text of a key, and keep it. Return "" if the key is no valid key of a commit."""
        text = ""
        if key[:2] == _COMMIT_TYPE:
            topic_start = 4 + _INT16.unpack_from(key, 2)[0]
            topic_end = topic_start + 2 + _INT16.unpack_from(key, topic_start)[0]
            partition = _INT32.unpack_from(key, topic_end)[0]
            if 4 <= topic_start <= topic_end - 2:
                group = self._format_name(key[4:topic_start])
                topic = self._format_name(key[topic_start + 2 : topic_end])
                text = (
                    f' key: {{"type":"1","data":{{"group":{group},"topic":{topic},"partition":{partition}}}}} payload: '
                )
        self._keep(self._text_by_key, key, text)
        return text

    def _format_name(self, name: bytes) -> str:
        """Return the JSON of a group id or a topic name, and keep it, because it is in many keys."""
        text = self._text_by_name.get(name)
        if text is None:
            text = format_json(decode_utf8(name))
            self._keep(self._text_by_name, name, text)
        return text

    def _keep(self, texts: dict[bytes, str], data: bytes, text: str) -> None:
        """Keep the text of some bytes in `texts`. If too much would be kept, forget everything else."""
        self._kept_characters += len(data) + len(text)
        if self._kept_characters > _MAX_KEPT_CHARACTERS:
            self._text_by_key.clear()
            self._text_by_name.clear()
            self._kept_characters = len(data) + len(text)
        texts[data] = text

    def _format_value(self, value: bytes | None) -> str | None:
        """Return the text of a commit's value; None if dump_json.py must format the record."""
        if value is None:
            return "<DELETE>"
        if len(value) == _short_value.size:
            version, offset, leader_epoch, size, commit_timestamp = _short_value.unpack(value)
            if version == 3 and size == 0:
                return (
                    f'{{"version":"3","data":{{"offset":{offset},"leaderEpoch":{leader_epoch},"metadata":"",'
                    f'"commitTimestamp":{commit_timestamp}}}}}'
                )
        version, offset, leader_epoch = _value_start.unpack_from(value)
        if version == 3:
            start = _value_start.size + 2
            size = _INT16.unpack_from(value, _value_start.size)[0]
        elif version == 4 and self._reads_version_4:
            # The size + 1 is stored as an unsigned varint. A size up to _MAX_SHORT_SIZE has one byte.
            start = _value_start.size + 1
            size = value[start - 1] - 1
        else:
            return None
        if size < 0 or (version == 4 and size > _MAX_SHORT_SIZE):
            return None
        end = start + size
        topic_id = self._format_tags(value[end + _INT64.size :]) if version == 4 else ""
        if topic_id is None:
            return None
        metadata = format_json(decode_utf8(value[start:end])) if size else '""'
        commit_timestamp = _INT64.unpack_from(value, end)[0]
        return (
            f'{{"version":"{version}","data":{{"offset":{offset},"leaderEpoch":{leader_epoch},"metadata":{metadata},'
            f'"commitTimestamp":{commit_timestamp}{topic_id}}}}}'
        )

    def _format_tags(self, tags: bytes) -> str | None:
        """Return the text of a tag section without tags, or with a topic id only; otherwise None."""
        if tags[0] == 0:
            return ""
        topic_id = tags[len(_TOPIC_ID_TAG) : len(_TOPIC_ID_TAG) + len(_NO_TOPIC_ID)]
        if not tags.startswith(_TOPIC_ID_TAG) or len(topic_id) < len(_NO_TOPIC_ID):
            return None
        if topic_id == _NO_TOPIC_ID or not self._reads_topic_ids:
            return None
        return f',"topicId":"{uuid_text(topic_id)}"'


def _read_size(data: bytes, position: int) -> tuple[int, int]:
    """Return a size and the position after it. Raise IndexError if the size is negative or has more than two bytes."""
    first = data[position]
    if first < 0x80:
        if first & 1:
            raise IndexError
        return first >> 1, position + 1
    second = data[position + 1]
    if first & 1 or second >= 0x80:
        raise IndexError
    return (first & 0x7F) >> 1 | second << 6, position + 2
