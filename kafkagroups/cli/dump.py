"""The command `dump`: every batch and record of a log, as text, as JSON, or as Kafka's own tools print them.

A marker is a control record that ends a transaction. Its type is COMMIT or ABORT. Control records of other types end no
transaction. Control records have no group, so every option that looks into the key or the value leaves them out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from kafkagroups.cli import answers
from kafkagroups.cli.options import parse_hex, rules_to_json
from kafkagroups.cli.output import ToolOutput, format_time_ms, print_error, print_line
from kafkagroups.errors import BadBytes, BatchTooLarge, InvalidRecord, UsageError
from kafkagroups.groups.log_records import OFFSET_KEYS, describe_rest, find_group_id
from kafkagroups.helpers import parse_whole_number
from kafkagroups.kafka_tools import dump_log, formatters
from kafkagroups.kafka_tools.jvm import ToolCrashed
from kafkagroups.log.batch import CODEC, Batch, LogRecord
from kafkagroups.log.holes import OffsetGaps
from kafkagroups.log.segments import Log, Notes
from kafkagroups.log.stop import RecordRange, Stop
from kafkagroups.records.consumer_protocol import (
    HIGHEST_VERSION,
    VersionedMessage,
    decode_assignment,
    decode_subscription,
)
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.group_metadata import GroupMetadataValue
from kafkagroups.records.record_json import from_json, key_to_json, value_to_json
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.records.serde import Record, decode_key, decode_with_key, encode
from kafkagroups.records.structs import to_json
from kafkagroups.records.versions import parse_release

NEWEST_TOOL = "4.3.1"
"""The newest Kafka version whose tools `--format` reproduces."""
ARGUMENTS = f"""
PATH...
--format text|dump-log|formatter=text  text: readable; dump-log: the output of kafka-dump-log.sh; formatter: the output
    of the console consumer; control characters are escaped only on a terminal
--kafka VERSION  the Kafka version that reads and prints the records (default: {NEWEST_TOOL})
--from N  only records whose offset is N or more
--until --until-time
--since-time T  only records whose timestamp is T or later (T as in --until-time)
--group G  only records of this group
--topic TOPIC  only commits of an offset of this topic
--partition N  only commits of an offset of this partition (of the topic that is read, not of the log)
--member M  only records of this member id, and records of classic groups with this member
--key KEY  only records with this key: its bytes in hex, or the JSON that --json prints
--tombstones  only records without a value, which delete
--type TYPE  only records of this type: a number, or a name such as OffsetCommit
--max-batch-bytes --past-damage
--json  one line of JSON per record, without the last line of text, which names the first offset after --until or
    --until-time; members of classic consumer groups have the decoded subscriptionData and assignmentData
"""
EXAMPLES = """\
examples:
  kafkagroups dump data/harbour/1.0.1/__consumer_offsets-9
  kafkagroups dump LOG --group billing --json | jq .value
  kafkagroups dump LOG --from 20 --until 40 --type OffsetCommit
  kafkagroups dump LOG --group billing --topic orders --partition 0 --since-time 2026-11-21T10:00
  kafkagroups dump LOG --tombstones
  kafkagroups dump LOG --type GroupMetadata --json | jq -c '.value.data.members[]? | .subscriptionData.topics'
  kafkagroups dump LOG --format dump-log --kafka 1.0.1
      the output of that version's kafka-dump-log.sh --offsets-decoder --print-data-log --deep-iteration
      (--kafka 0.10.2 or newer; with --from and --until, only the batches and records in this range)
  kafkagroups dump LOG --format formatter --kafka 2.8.2
      the output of kafka-console-consumer.sh with OffsetsMessageFormatter and GroupMetadataMessageFormatter"""


@dataclass(frozen=True)
class _Decoded:
    """A log record, and what its bytes mean.

    `record` is None for a control record, and for a record that cannot be decoded. `key_record` is the record with its
    key alone: it is None for a control record, and for a record whose key cannot be decoded. `control_type` is the name
    of a control record's type. `error` says why the record cannot be decoded.
    """

    log_record: LogRecord
    record: Record | None = None
    key_record: Record | None = None
    control_type: str | None = None
    error: str | None = None

    def is_selected(self, wanted: dict[str, object]) -> bool:
        """Return whether this is what the options ask for. A member can be in the key or the value."""
        if not wanted:
            return True
        record = self.key_record
        key = record and record.key
        offset_key = key if isinstance(key, OFFSET_KEYS) else None
        value = self.record and self.record.value
        members = value.members if isinstance(value, GroupMetadataValue) else ()
        facts: dict[str, Collection[object]] = {
            "tombstones": [self.log_record.value is None],
            "key": [self.log_record.key],
            "group": [record and find_group_id(record)],
            "type": [record and record.type],
            "topic": [offset_key and offset_key.topic],
            "partition": [offset_key and offset_key.partition],
            "member": [getattr(key, "member_id", None), *(member.member_id for member in members)],
        }
        return self.control_type is None and all(value in facts[name] for name, value in wanted.items())


def _decode_record(batch: Batch, log_record: LogRecord, dialect: Dialect) -> _Decoded:
    """Return the decoded record. The errors contain the file and the offset."""
    key_record = None
    try:
        if batch.is_control:
            control_type = decode_control_key(log_record.key)
            # The output has the names of markers in lower case, and other control types in upper case.
            is_marker = control_type in (ControlType.COMMIT, ControlType.ABORT)
            return _Decoded(log_record, control_type=control_type.name.lower() if is_marker else control_type.name)
        key = decode_key(log_record.key, dialect)
        key_record = Record(key.type, key.content, None, None)
        record = decode_with_key(key, log_record.value)
        return _Decoded(log_record, record, record)
    except BadBytes as error:
        error.file = batch.file
        error.offset = log_record.offset
        return _Decoded(log_record, key_record=key_record, error=str(error))


def _find_wanted(args: argparse.Namespace) -> dict[str, object]:
    """Return what the options that select records by their content ask for, by the names in `_Decoded.is_selected`."""
    wanted = {name: getattr(args, name) for name in ("group", "topic", "partition", "member")}
    wanted |= {"tombstones": args.tombstones or None, "key": _parse_key(args.key), "type": _parse_type(args.type)}
    return {name: value for name, value in wanted.items() if value is not None}


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
        return parse_hex(text, "--key")
    try:
        return encode(from_json({"key": json.loads(text), "value": None}))[0]
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--key: expected JSON: {error}") from None
    except UsageError as error:
        raise UsageError(f"--key: {error}") from None


def _value_to_json(record: Record, dialect: Dialect, suffix: str = "") -> dict[str, Any] | None:
    """Return the JSON of a value, with the decoded subscription and assignment of each member of a consumer group.

    A group record stores them as bytes that only clients read (consumer_protocol.py), so Kafka's JSON has them in
    base64. They replace the bytes, if they can be read; with a suffix, they stand next to the bytes, or None. Groups of
    other protocol types, for example of Kafka Connect, have other formats.
    """
    value = value_to_json(record, dialect)
    content = record.value
    if value is None or not isinstance(content, GroupMetadataValue) or content.protocol_type != "consumer":
        return value
    for member, row in zip(content.members, value["data"]["members"], strict=True):
        subscription = _message_to_json(decode_subscription, member.subscription)
        assignment = _message_to_json(decode_assignment, member.assignment)
        for name, message in (("subscription", subscription), ("assignment", assignment)):
            row[name + suffix] = message if suffix else message or row[name]
    return value


def _message_to_json(decode: Callable[[bytes], VersionedMessage[Any]], data: bytes) -> dict[str, Any] | None:
    """Return the version and the fields as Kafka's JSON; None if Kafka's ConsumerProtocol refuses the bytes."""
    try:
        decoded = decode(data)
    except InvalidRecord:
        return None
    return {"version": decoded.version, **to_json(decoded.message, min(decoded.version, HIGHEST_VERSION))}


def run(args: argparse.Namespace) -> int:
    errors: list[str] = []
    stop = Stop(args.until, args.until_time)
    record_range = RecordRange(vars(args)["from"], args.since_time, stop)
    topics = answers.open_topics(args)
    printer = _Printer(args, topics[0].dialect, record_range, _find_wanted(args), errors)
    if args.format != "text" and args.past_damage:
        raise UsageError(f"--past-damage cannot be used with --format {args.format}: Kafka's tool ends at the damage")
    if args.format != "text" and (args.json or printer.wanted):
        raise UsageError(
            f"--format {args.format} prints text of all groups and types: of the options that select, it takes only "
            "--from, --since-time, --until and --until-time, and it does not take --json"
        )
    status = 0
    for topic in topics:
        try:
            opened = topic.open(stop)
            opened.check_stop()
            for log in opened.logs:
                if args.format == "text":
                    printer.print(log)
                else:
                    _print_as_tool(log, args, record_range, errors)
        except UsageError as error:
            print_error(error)
            status = 2
        except ToolCrashed as error:
            sys.stdout.flush()
            print_error(f"Kafka's own tool fails at this point: {error}")
            return max(status, 1)
    if len(errors) > 1:
        errors = [f"{errors[0]} (and {len(errors) - 1} more)"]
    return max(status, answers.print_problems(errors))


def _print_as_tool(log: Log, args: argparse.Namespace, record_range: RecordRange, errors: list[str]) -> None:
    """Print the text of one of Kafka's own tools. `errors` gets why it ends early, if this is not the tool's reason."""
    out = ToolOutput(sys.stdout)
    version = parse_release(args.kafka or NEWEST_TOOL)
    try:
        if args.format == "dump-log":
            dump_log.dump(log, out, version, record_range)
            return
        notes = Notes()
        for line in formatters.format_lines(log, version, record_range, notes):
            out.write(f"{line}\n")
        if notes.damage:
            errors.append(str(notes.damage))
    except BatchTooLarge as error:
        errors.append(str(error))


@dataclass
class _Printer:
    """Prints the batches and records that the options select, log by log. Messages about bad data go into `errors`."""

    args: argparse.Namespace
    dialect: Dialect
    range: RecordRange
    wanted: dict[str, object]
    errors: list[str]

    def print(self, log: Log) -> None:
        self._log = log
        self._partition = "" if log.partition is None else f"partition {log.partition} "
        self._gaps = OffsetGaps(max(log.start_offset, self.range.first_offset or 0))
        notes = Notes()
        next_offset = log.start_offset
        damage_count = 0
        for batch in self.range.read_batches(log, notes):
            next_offset = batch.next_offset
            for damage in notes.gaps[damage_count:]:
                damage_count += 1
                self.errors.append(str(damage))
                as_json = json.dumps({"partition": log.partition, "gap": asdict(damage)})
                print_line(as_json if self.args.json else f"{self._partition}damage: {damage}")
                self._gaps.skip_to(damage.to_offset)
            lines = self._find_gap(batch.base_offset, self._partition)
            try:
                lines += self._format_batch(batch)
            except BadBytes as error:
                self.errors.append(str(error))
                self._gaps.skip_to(batch.last_offset + 1)
            for line in lines:
                print_line(line)
        if not self.args.json:
            answers.print_cut(self.args, {log.partition: next_offset})
        if notes.damage:
            self.errors.append(str(describe_rest(log, notes.damage, self.dialect)))

    def _find_gap(self, offset: int, start: str) -> list[str]:
        """Return the line of the offsets without a record right before `offset`; no line if there are none.

        Filters leave out records, so only a text without filters of the content or the time shows what is missing.
        """
        if self.args.json or self.wanted or self.args.since_time is not None:
            return []
        gap = self._gaps.find_before(offset)
        if gap is None:
            return []
        first, last = gap
        offsets = f"offset {first} has" if first == last else f"offsets {first} to {last} have"
        return [f"{start}gap: {offsets} no record"]

    def _format_batch(self, batch: Batch) -> list[str]:
        """Return the lines of a batch: a line about it, and one for each selected record and each gap."""
        lines = list(self._format_records(batch))
        if self.args.json or ((self.wanted or self.range.has_start) and not lines):
            return lines
        return [f"{self._partition}{_describe_batch(batch)}", *lines]

    def _format_records(self, batch: Batch) -> Iterator[str]:
        for log_record in self.range.select_records(batch):
            yield from self._find_gap(log_record.offset, "  ")
            self._gaps.skip_to(log_record.offset + 1)
            decoded = _decode_record(batch, log_record, self.dialect)
            if decoded.is_selected(self.wanted):
                if decoded.error:
                    self.errors.append(decoded.error)
                yield json.dumps(self._to_json(batch, decoded)) if self.args.json else self._to_text(batch, decoded)
        yield from self._find_gap(batch.last_offset + 1, "  ")

    def _to_json(self, batch: Batch, decoded: _Decoded) -> dict[str, Any]:
        log_record = decoded.log_record
        record = decoded.record or decoded.key_record
        fields: dict[str, Any] = {
            "partition": self._log.partition,
            "offset": log_record.offset,
            "timestamp": log_record.timestamp,
            "leader_epoch": batch.partition_leader_epoch,
            "delete_horizon_ms": batch.delete_horizon_ms,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "transactional": batch.is_transactional,
            "control": decoded.control_type,
            "type": record and record.type,
            "name": record and record.name,
            "key": record and key_to_json(record),
            "value": decoded.record and _value_to_json(decoded.record, self.dialect, "Data"),
        }
        if decoded.error:
            contents = {"key_hex": _to_hex(log_record.key), "value_hex": _to_hex(log_record.value)}
            fields |= {"error": decoded.error, **contents}
        return {**fields, **rules_to_json(self.dialect.rules_of)}

    def _to_text(self, batch: Batch, decoded: _Decoded) -> str:
        log_record = decoded.log_record
        record = decoded.record
        parts = [f"  {log_record.offset}", format_time_ms(log_record.timestamp)]
        if batch.magic >= 2:
            parts.append(f"leader epoch {batch.partition_leader_epoch}")
        if decoded.error:
            key_text = f"key {_to_hex(log_record.key)}"
            if decoded.key_record is not None:
                key_text = f"{decoded.key_record.name}  {_format_key(decoded.key_record)}"
            parts.append(f"cannot be decoded: {decoded.error}: {key_text}, value {_to_hex(log_record.value)}")
        elif record is None:  # A control record. The text says "marker" even if its type ends no transaction.
            parts.append(f"marker: {decoded.control_type}")
        else:
            value = _value_to_json(record, self.dialect) or {"hex": "tombstone"}
            if "data" in value:
                value["hex"] = f"v{value['version']} {json.dumps(value['data'], ensure_ascii=False)}"
            parts += [record.name, _format_key(record), value["hex"]]
        return "  ".join(parts)


def _describe_batch(batch: Batch) -> str:
    codec = f" {batch.compression.name.lower()}" if batch.attributes & CODEC else ""
    horizon = batch.delete_horizon_ms
    parts = {
        f"offsets {batch.base_offset} to {batch.last_offset}, byte {batch.position}, {batch.size} bytes": True,
        f"magic {batch.magic}{codec}, max timestamp {format_time_ms(batch.max_timestamp)}": True,
        f"leader epoch {batch.partition_leader_epoch}": batch.magic >= 2,
        f"producer {batch.producer_id}/{batch.producer_epoch}": batch.producer_id >= 0,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        f"delete horizon {format_time_ms(horizon or 0)}": horizon is not None,
    }
    return ", ".join(text for text, is_shown in parts.items() if is_shown)


def _to_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _format_key(record: Record) -> str:
    """Return the fields of a key. The key of an unknown record type has no fields, only bytes in hex."""
    key = key_to_json(record)
    fields = key.get("data", {"key": key.get("hex")})
    return " ".join(f"{name}={content}" for name, content in fields.items())
