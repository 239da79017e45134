"""The command `dump`: every batch and record of a log, as text, as JSON, or as Kafka's own tools print them.

A marker is a control record that ends a transaction. Its type is COMMIT or ABORT. Control records of other types end no
transaction. Control records have no group, so every option that looks into the key or the value leaves them out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

from kafkagroups.cli.log_text import print_cut
from kafkagroups.cli.options import choose_dialect, parse_hex, rules_to_json
from kafkagroups.cli.output import ToolOutput, format_time_ms, print_error, print_line
from kafkagroups.errors import BadBytes, BatchTooLarge, InvalidRecord, UsageError
from kafkagroups.groups.after_damage import describe_rest
from kafkagroups.groups.log_records import OFFSET_KEYS, find_group_id
from kafkagroups.helpers import parse_whole_number
from kafkagroups.kafka_tools import dump_log, formatters
from kafkagroups.kafka_tools.jvm import ToolCrashed
from kafkagroups.log.batch import CODEC, Batch, LogRecord
from kafkagroups.log.damage import Gap
from kafkagroups.log.folders import open_logs
from kafkagroups.log.holes import OffsetGaps
from kafkagroups.log.record_range import RecordRange
from kafkagroups.log.segments import Log, Notes
from kafkagroups.log.stop import Stop
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
from kafkagroups.records.serde import Record, decode, decode_key, encode
from kafkagroups.records.structs import to_json
from kafkagroups.records.versions import Version, parse_release

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


class _Decoded(NamedTuple):
    """The result of decoding a log record.

    `record` is None for a control record, and for a record that cannot be decoded. `key_record` is the record with its
    key alone: it is None for a control record, and for a record whose key cannot be decoded. `control_type` is the name
    of a control record's type. `error` says why the record cannot be decoded.
    """

    record: Record | None = None
    key_record: Record | None = None
    control_type: str | None = None
    error: str | None = None

    def find_group(self) -> str | None:
        return None if self.key_record is None else find_group_id(self.key_record)

    def find_member_ids(self) -> set[str]:
        """Return the ids of the members that a record names, in its key or as a member of a classic group."""
        member_ids = {getattr(self.key_record and self.key_record.key, "member_id", None)}
        if self.record is not None and isinstance(self.record.value, GroupMetadataValue):
            member_ids.update(member.member_id for member in self.record.value.members)
        return {member_id for member_id in member_ids if member_id is not None}


def _decode_record(batch: Batch, log_record: LogRecord, dialect: Dialect) -> _Decoded:
    """Return the decoded record. The errors contain the file and the offset."""
    try:
        if not batch.is_control:
            record = decode(log_record.key, log_record.value, dialect)
            return _Decoded(record=record, key_record=record)
        control_type = decode_control_key(log_record.key)
        # The output has the names of markers in lower case, and other control types in upper case.
        is_marker = control_type in (ControlType.COMMIT, ControlType.ABORT)
        return _Decoded(control_type=control_type.name.lower() if is_marker else control_type.name)
    except BadBytes as error:
        error.file = batch.file
        error.offset = log_record.offset
        key_record = None if batch.is_control else _decode_key_only(log_record, dialect)
        return _Decoded(key_record=key_record, error=str(error))


def _decode_key_only(log_record: LogRecord, dialect: Dialect) -> Record | None:
    """Return a record with the decoded key and without a value; None if the key cannot be decoded."""
    try:
        key = decode_key(log_record.key, dialect)
    except BadBytes:
        return None
    return Record(key.type, key.content, None, None)


Test = Callable[[LogRecord, _Decoded], bool]
"""Whether a record that is not a control record is selected."""


def _list_tests(args: argparse.Namespace) -> list[Test]:
    """Return a test for each option that selects records by their content. A record must pass all of them.

    Raises UsageError if --type or --key is wrong.
    """
    key = _parse_key(args.key)
    record_type = _parse_type(args.type)

    def has_name(name: str, value: object) -> Test:
        return lambda _, decoded: getattr(decoded.key_record and decoded.key_record.key, name, None) == value

    def is_offset(_: LogRecord, decoded: _Decoded) -> bool:
        return decoded.key_record is not None and isinstance(decoded.key_record.key, OFFSET_KEYS)

    tests: list[tuple[object, list[Test]]] = [
        (args.tombstones or None, [lambda record, _: record.value is None]),
        (key, [lambda record, _: record.key == key]),
        (args.group, [lambda _, decoded: decoded.find_group() == args.group]),
        (record_type, [lambda _, decoded: decoded.key_record is not None and decoded.key_record.type == record_type]),
        (args.topic, [is_offset, has_name("topic", args.topic)]),
        (args.partition, [is_offset, has_name("partition", args.partition)]),
        (args.member, [lambda _, decoded: args.member in decoded.find_member_ids()]),
    ]
    return [test for value, part in tests if value is not None for test in part]


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
        key_json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--key: expected JSON: {error}") from None
    try:
        key, _ = encode(from_json({"key": key_json, "value": None}))
    except UsageError as error:
        raise UsageError(f"--key: {error}") from None
    return key


def _decode_members(
    record: Record, value_json: dict[str, Any] | None
) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]]:
    """Yield the JSON of each member of a classic consumer group, with its decoded subscription and assignment.

    A group record stores them as bytes that only clients read (consumer_protocol.py), so Kafka's JSON has them in
    base64. Bytes that cannot be read give None. Groups of other protocol types, for example of Kafka Connect, have
    other formats.
    """
    value = record.value
    if value_json is None or not isinstance(value, GroupMetadataValue) or value.protocol_type != "consumer":
        return
    for member, json_member in zip(value.members, value_json["data"]["members"], strict=True):
        subscription = _message_to_json(decode_subscription, member.subscription)
        yield json_member, subscription, _message_to_json(decode_assignment, member.assignment)


def _message_to_json(decode: Callable[[bytes], VersionedMessage[Any]], data: bytes) -> dict[str, Any] | None:
    """Return the version and the fields as Kafka's JSON; None if Kafka's ConsumerProtocol refuses the bytes."""
    try:
        decoded = decode(data)
    except InvalidRecord:
        return None
    return {"version": decoded.version, **to_json(decoded.message, min(decoded.version, HIGHEST_VERSION))}


def run(args: argparse.Namespace) -> int:
    dialect = choose_dialect(None, args.kafka)
    tests = _list_tests(args)
    record_range = RecordRange(vars(args)["from"], args.since_time, Stop(args.until, args.until_time))
    if args.format != "text" and args.past_damage:
        raise UsageError(f"--past-damage cannot be used with --format {args.format}: Kafka's tool ends at the damage")
    if args.format != "text" and (args.json or tests):
        raise UsageError(
            f"--format {args.format} prints text of all groups and types: of the options that select, it takes only "
            "--from, --since-time, --until and --until-time, and it does not take --json"
        )
    tool_version = parse_release(args.kafka or NEWEST_TOOL)
    status = 0
    errors: list[str] = []
    for path in args.paths:
        try:
            logs = [log.limit_batches(args.max_batch_bytes) for log in open_logs(path)]
            if len(logs) > 1 and args.until is not None:
                raise UsageError(f"--until needs one partition, but {path} has {len(logs)} partitions")
            for log in logs:
                if args.format != "text":
                    _print_as_tool(log, args.format, tool_version, record_range, errors)
                    continue
                read_log = log.skip_damage() if args.past_damage else log
                _LogPrinter(read_log, args, dialect, record_range, tests, errors).print()
        except UsageError as error:
            print_error(error)
            status = 2
        except ToolCrashed as error:
            sys.stdout.flush()
            print_error(f"Kafka's own tool fails at this point: {error}")
            return max(status, 1)
    if errors:
        sys.stdout.flush()
        print_error(errors[0] + (f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""))
    return max(status, int(bool(errors)))


def _print_as_tool(log: Log, tool: str, tool_version: Version, record_range: RecordRange, errors: list[str]) -> None:
    """Print the text of one of Kafka's own tools. `tool` is the value of --format.

    Append a message to `errors` if the text ends because of damaged bytes or because of --max-batch-bytes.
    """
    out = ToolOutput(sys.stdout)
    if tool == "formatter":
        notes = Notes()
        for line in formatters.format_lines(log, tool_version, record_range, notes):
            out.write(f"{line}\n")
        if notes.damage:
            errors.append(str(notes.damage))
        return
    try:
        dump_log.dump(log, out, tool_version, record_range)
    except BatchTooLarge as error:
        errors.append(str(error))


class _LogPrinter:
    """Prints the batches and records of a log that the options select. Messages about bad data go into `errors`."""

    def __init__(
        self,
        log: Log,
        args: argparse.Namespace,
        dialect: Dialect,
        record_range: RecordRange,
        tests: list[Test],
        errors: list[str],
    ) -> None:
        self._log = log
        self._as_json = args.json
        self._has_limit = args.until is not None or args.until_time is not None
        self._dialect = dialect
        self._range = record_range
        self._tests = tests
        self._errors = errors
        self._partition = "" if log.partition is None else f"partition {log.partition} "
        # Filters leave out records, so only a text without filters of the content or the time shows what is missing.
        self._shows_gaps = not (args.json or tests or args.since_time is not None)
        self._gaps = OffsetGaps(max(log.start_offset, record_range.first_offset or 0))

    def print(self) -> None:
        log = self._log
        next_offset = log.start_offset
        damage_count = 0
        notes = Notes()
        for batch in self._range.read_batches(log, notes):
            next_offset = batch.next_offset
            for damage in notes.gaps[damage_count:]:
                damage_count += 1
                self._errors.append(str(damage))
                print_line(self._format_damage(damage))
                self._gaps.skip_to(damage.to_offset)
            lines = self._find_gap(batch.base_offset, self._partition)
            try:
                lines += self._format_batch(batch)
            except BadBytes as error:
                self._errors.append(str(error))
                self._gaps.skip_to(batch.last_offset + 1)
            for line in lines:
                print_line(line)
        if self._has_limit and not self._as_json:
            print_cut({log.partition: next_offset})
        if notes.damage:
            self._errors.append(str(describe_rest(log, notes.damage, self._dialect)))

    def _format_damage(self, gap: Gap) -> str:
        """Return the line that marks damaged bytes between two batches."""
        if self._as_json:
            return json.dumps({"partition": self._log.partition, "gap": asdict(gap)})
        return f"{self._partition}damage: {gap}"

    def _find_gap(self, offset: int, start: str) -> list[str]:
        """Return the line of the offsets without a record right before `offset`; no line if there are none."""
        gap = self._gaps.find_before(offset) if self._shows_gaps else None
        if gap is None:
            return []
        first, last = gap
        offsets = f"offset {first} has" if first == last else f"offsets {first} to {last} have"
        return [f"{start}gap: {offsets} no record"]

    def _format_batch(self, batch: Batch) -> list[str]:
        """Return the lines of a batch: a line about it, and one for each selected record and each gap."""
        lines = list(self._format_records(batch))
        if self._as_json or ((self._tests or self._range.has_start) and not lines):
            return lines
        return [f"{self._partition}{_describe_batch(batch)}", *lines]

    def _format_records(self, batch: Batch) -> Iterator[str]:
        for log_record in self._range.select_records(batch):
            yield from self._find_gap(log_record.offset, "  ")
            self._gaps.skip_to(log_record.offset + 1)
            decoded = _decode_record(batch, log_record, self._dialect)
            is_control = decoded.control_type is not None
            if self._tests and (is_control or not all(test(log_record, decoded) for test in self._tests)):
                continue
            if decoded.error:
                self._errors.append(decoded.error)
            if self._as_json:
                yield json.dumps(self._to_json(batch, log_record, decoded))
            else:
                yield self._to_text(batch, log_record, decoded)
        yield from self._find_gap(batch.last_offset + 1, "  ")

    def _to_json(self, batch: Batch, log_record: LogRecord, decoded: _Decoded) -> dict[str, Any]:
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
            "type": None if record is None else record.type,
            "name": None if record is None else record.name,
            "key": None if record is None else key_to_json(record),
            "value": None if decoded.record is None else value_to_json(decoded.record, self._dialect),
        }
        if decoded.record is not None:
            for member, subscription, assignment in _decode_members(decoded.record, fields["value"]):
                member["subscriptionData"] = subscription
                member["assignmentData"] = assignment
        if decoded.error:
            fields["error"] = decoded.error
            fields["key_hex"] = _to_hex(log_record.key)
            fields["value_hex"] = _to_hex(log_record.value)
        return {**fields, **rules_to_json(self._dialect.rules_of)}

    def _to_text(self, batch: Batch, log_record: LogRecord, decoded: _Decoded) -> str:
        start = f"  {log_record.offset}  {format_time_ms(log_record.timestamp)}"
        if batch.magic >= 2:
            start += f"  leader epoch {batch.partition_leader_epoch}"
        record = decoded.record
        if decoded.error:
            key_text = f"key {_to_hex(log_record.key)}"
            if decoded.key_record is not None:
                key_text = f"{decoded.key_record.name}  {_format_key(decoded.key_record)}"
            return f"{start}  cannot be decoded: {decoded.error}: {key_text}, value {_to_hex(log_record.value)}"
        if record is None:  # A control record. The text says "marker" even if its type ends no transaction.
            return f"{start}  marker: {decoded.control_type}"
        value = value_to_json(record, self._dialect)
        for member, subscription, assignment in _decode_members(record, value):
            # Bytes that cannot be read stay.
            member["subscription"] = subscription or member["subscription"]
            member["assignment"] = assignment or member["assignment"]
        if value is None:
            value_text = "tombstone"
        elif "data" in value:
            value_text = f"v{value['version']} {_encode_json(value['data'])}"
        else:
            value_text = value["hex"]
        return f"{start}  {record.name}  {_format_key(record)}  {value_text}"


def _describe_batch(batch: Batch) -> str:
    properties = [f"magic {batch.magic}"]
    if batch.attributes & CODEC:  # The batch is compressed.
        properties = [f"magic {batch.magic} {batch.compression.name.lower()}"]
    properties.append(f"max timestamp {format_time_ms(batch.max_timestamp)}")
    if batch.magic >= 2:
        properties.append(f"leader epoch {batch.partition_leader_epoch}")
    if batch.producer_id >= 0:
        properties.append(f"producer {batch.producer_id}/{batch.producer_epoch}")
    if batch.is_transactional:
        properties.append("transactional")
    if batch.is_control:
        properties.append("control")
    if batch.delete_horizon_ms is not None:
        properties.append(f"delete horizon {format_time_ms(batch.delete_horizon_ms)}")
    offsets = f"offsets {batch.base_offset} to {batch.last_offset}"
    return f"{offsets}, byte {batch.position}, {batch.size} bytes, {', '.join(properties)}"


_encode_json = json.JSONEncoder(ensure_ascii=False).encode


def _to_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _format_key(record: Record) -> str:
    """Return the fields of a key. The key of an unknown record type has no fields, only bytes in hex."""
    key = key_to_json(record)
    fields = key.get("data", {"key": key.get("hex")})
    return " ".join(f"{name}={content}" for name, content in fields.items())
