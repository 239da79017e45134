"""Which records the command `dump` prints: decoding of a log record, and the filters of the options.

A marker is a control record that ends a transaction. Control records have no group, so every filter that looks into the
key or the value leaves them out.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkagroups.cli import options
from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.log_records import OFFSET_KEYS, find_group_id
from kafkagroups.helpers import parse_whole_number
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.record_range import RecordRange
from kafkagroups.log.stop import Stop
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.group_metadata import GroupMetadataValue
from kafkagroups.records.record_json import from_json
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.records.serde import Record, decode, decode_key, encode


class DecodedRecord(NamedTuple):
    """The result of decoding a log record.

    `record` is None for a control record, and for a record that cannot be decoded. `key_record` is the record with its
    key alone: it is None for a control record, and for a record whose key cannot be decoded. `control_type` is the name
    of a control record's type. `error` says why the record cannot be decoded.
    """

    record: Record | None = None
    key_record: Record | None = None
    control_type: str | None = None
    error: str | None = None


def decode_record(batch: Batch, log_record: LogRecord, dialect: Dialect) -> DecodedRecord:
    """Return the decoded record. The errors contain the file and the offset."""
    try:
        if not batch.is_control:
            record = decode(log_record.key, log_record.value, dialect)
            return DecodedRecord(record=record, key_record=record)
        control_type = decode_control_key(log_record.key)
        # The output has the names of markers in lower case, and other control types in upper case.
        is_marker = control_type in (ControlType.COMMIT, ControlType.ABORT)
        return DecodedRecord(control_type=control_type.name.lower() if is_marker else control_type.name)
    except BadBytes as error:
        error.file = batch.file
        error.offset = log_record.offset
        key_record = None if batch.is_control else _decode_key_only(log_record, dialect)
        return DecodedRecord(key_record=key_record, error=str(error))


def _decode_key_only(log_record: LogRecord, dialect: Dialect) -> Record | None:
    """Return a record with the decoded key and without a value; None if the key cannot be decoded."""
    try:
        key = decode_key(log_record.key, dialect)
    except BadBytes:
        return None
    return Record(key.type, key.content, None, None)


@dataclass(frozen=True)
class RecordFilter:
    """The options that select records. None means that the option is not given. A record must match all options.

    `record_range` is the range of --from, --since-time, --until and --until-time. `record_type` is a number. `key`
    contains the bytes of the key.
    """

    record_range: RecordRange
    group: str | None
    record_type: int | None
    topic: str | None
    partition: int | None
    member: str | None
    key: bytes | None
    is_tombstone: bool

    @property
    def selects_content(self) -> bool:
        """Whether the filter depends on the key or the value of a record."""
        values = (self.group, self.record_type, self.topic, self.partition, self.member, self.key)
        return self.is_tombstone or any(value is not None for value in values)

    @property
    def selects_records(self) -> bool:
        """Whether the filter can leave out records."""
        return self.selects_content or self.record_range.has_start

    def includes_content(self, log_record: LogRecord, decoded: DecodedRecord) -> bool:
        """Return whether the key and the value of a record match."""
        if not self.selects_content:
            return True
        if decoded.control_type is not None:
            return False
        if self.is_tombstone and log_record.value is not None:
            return False
        if self.key is not None and log_record.key != self.key:
            return False
        return self._includes_names(decoded)

    def _includes_names(self, decoded: DecodedRecord) -> bool:
        """Return whether the names in the key and the value match: of a group, a type, an offset and a member."""
        key_record = decoded.key_record
        names = (self.group, self.record_type, self.topic, self.partition, self.member)
        if key_record is None:
            return all(name is None for name in names)
        if self.group is not None and find_group_id(key_record) != self.group:
            return False
        if self.record_type is not None and key_record.type != self.record_type:
            return False
        key: Any = key_record.key
        is_offset = isinstance(key, OFFSET_KEYS)
        if self.topic is not None and not (is_offset and key.topic == self.topic):
            return False
        if self.partition is not None and not (is_offset and key.partition == self.partition):
            return False
        return self.member is None or self.member in _find_member_ids(decoded)


def _find_member_ids(decoded: DecodedRecord) -> set[str]:
    """Return the ids of the members that a record names, in its key or as a member of a classic group."""
    member_ids = set()
    if decoded.key_record is not None:
        member_ids.add(getattr(decoded.key_record.key, "member_id", None))
    if decoded.record is not None and isinstance(decoded.record.value, GroupMetadataValue):
        member_ids.update(member.member_id for member in decoded.record.value.members)
    return {member_id for member_id in member_ids if member_id is not None}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that select records by their content."""
    parser.add_argument("--group", metavar="G", help="only records of this group")
    parser.add_argument("--topic", metavar="T", help="only commits of an offset of this topic")
    parser.add_argument(
        "--partition",
        type=options.parse_number,
        metavar="P",
        help="only commits of an offset of this partition (of the topic that is read, not of the log)",
    )
    parser.add_argument(
        "--member",
        metavar="M",
        help="only records of this member id, and records of classic groups with this member",
    )
    parser.add_argument(
        "--key", metavar="KEY", help="only records with this key: its bytes in hex, or the JSON that --json prints"
    )
    parser.add_argument("--tombstones", action="store_true", help="only records without a value, which delete")
    parser.add_argument(
        "--type", metavar="T", help="only records of this type: a number, or a name such as OffsetCommit"
    )


def make_filter(args: argparse.Namespace) -> RecordFilter:
    """Return the filter of the options. Raises UsageError if --type or --key is wrong."""
    return RecordFilter(
        record_range=RecordRange(args.first_offset, args.since_time, Stop(args.until, args.until_time)),
        group=args.group,
        record_type=_parse_type(args.type),
        topic=args.topic,
        partition=args.partition,
        member=args.member,
        key=_parse_key(args.key),
        is_tombstone=args.tombstones,
    )


def _parse_type(text: str | None) -> int | None:
    """Return the number of the record type in --type. None means that the option is not given."""
    if text is None:
        return None
    number_by_name = {record_type.name: record_type.id for record_type in RECORD_TYPES.values()}
    if text in number_by_name:
        return number_by_name[text]
    try:
        return parse_whole_number(text)
    except UsageError:
        raise UsageError(f"--type: expected a number or one of {', '.join(number_by_name)}, found {text!r}") from None


def _parse_key(text: str | None) -> bytes | None:
    """Return the bytes of the key in --key. None means that the option is not given."""
    if text is None or not text.startswith("{"):
        return options.parse_hex(text, "--key")
    try:
        key_json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--key: expected JSON: {error}") from None
    try:
        key, _ = encode(from_json({"key": key_json, "value": None}))
    except UsageError as error:
        raise UsageError(f"--key: {error}") from None
    return key
