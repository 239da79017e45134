"""The command `dump`.

Control records of other types than COMMIT and ABORT end no transaction. Control records have no group, so every option
that looks into the key or the value leaves them out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from kafkagroups.cli import answers
from kafkagroups.cli.options import Options
from kafkagroups.cli.output import format_time_ms, print_as_tool, print_error, print_line
from kafkagroups.errors import BadBytes, BatchTooLarge, InvalidRecord, UsageError
from kafkagroups.groups.group import CONSUMER
from kafkagroups.groups.modern_group import MEMBER_STATES
from kafkagroups.groups.modern_replay import GROUP_TYPE_BY_RECORD_TYPE
from kafkagroups.groups.replay import describe_rest, find_group_id
from kafkagroups.helpers import parse_whole_number
from kafkagroups.kafka_tools import dump_log, formatters
from kafkagroups.kafka_tools.formatters import ToolCrashed
from kafkagroups.log.batch import CODEC, Batch, LogRecord
from kafkagroups.log.batches import OffsetGaps
from kafkagroups.log.segments import Log, Notes, RecordRange, Stop, batches_until
from kafkagroups.records import consumer_protocol
from kafkagroups.records.group_metadata import GroupMetadataValue
from kafkagroups.records.record_json import key_to_json, value_to_json
from kafkagroups.records.releases import Dialect, parse_release, rules_to_json
from kafkagroups.records.serde import RECORD_TYPES, Record, decode_control_key, decode_key, decode_with_key
from kafkagroups.records.structs import to_json

NEWEST_TOOL = "4.3.1"
"""The newest Kafka version whose tools `--format` reproduces."""
_DECODED_BYTES = ("subscription", "assignment")
ARGUMENTS = f"""
PATH...
--format text|dump-log|formatter=text  text: readable; dump-log: the output of kafka-dump-log.sh --offsets-decoder
    --print-data-log --deep-iteration; formatter: the output of the console consumer with Kafka's formatters
--kafka VERSION  the Kafka version that reads and prints the records (default: {NEWEST_TOOL})
--from N  only records whose offset is N or more
--until --until-time --since-time --topic --partition
--group G  only records of this group
--tombstones  only records without a value, which delete
--type TYPE  only records of this type: a number, or a name such as OffsetCommit
--max-batch-bytes --past-damage
--json  a line per record, without the last line of text, which names the first offset after --until or --until-time
"""
EXAMPLES = """\
  kafkagroups dump data/harbour/1.0.1/__consumer_offsets-9
  kafkagroups dump LOG --from 20 --until 40 --type OffsetCommit
  kafkagroups dump LOG --group billing --topic orders --partition 0 --since-time 2026-11-21T10:00
  kafkagroups dump LOG --type GroupMetadata --json | jq -c '.value.data.members[]? | .subscriptionData.topics'
  kafkagroups dump LOG --format dump-log --kafka 1.0.1"""


def _find_wanted(args: Options) -> dict[str, object]:
    wanted = {name: getattr(args, name) for name in ("group", "topic", "partition")}
    wanted |= {"tombstones": args.tombstones or None, "type": None if args.type is None else _parse_type(args.type)}
    return {name: value for name, value in wanted.items() if value is not None}


def _parse_type(text: str) -> int:
    number_by_name = {record_type.name: record_type.id for record_type in RECORD_TYPES.values()}
    try:
        return number_by_name[text] if text in number_by_name else parse_whole_number(text)
    except UsageError:
        raise UsageError(f"--type: expected a number or one of {', '.join(number_by_name)}, found {text!r}") from None


def _decode_members(record: Record, value: dict[str, Any] | None) -> None:
    """Add the decoded forms of a member's bytes to the JSON of a value; None if they have another format.

    Only clients read these bytes (consumer_protocol.py), so Kafka's JSON has them in base64.
    """
    content = record.value
    if value is None or not isinstance(content, GroupMetadataValue) or content.protocol_type != CONSUMER:
        return
    for member, row in zip(content.members, value["data"]["members"], strict=True):
        for name in _DECODED_BYTES:
            row[f"{name}Data"] = None
            with suppress(InvalidRecord):  # Kafka's ConsumerProtocol refuses the bytes.
                decoded = getattr(consumer_protocol, f"decode_{name}")(getattr(member, name))
                version = min(decoded.version, consumer_protocol.HIGHEST_VERSION)
                row[f"{name}Data"] = {"version": decoded.version, **to_json(decoded.message, version)}


def run(args: Options) -> int:
    record_range = RecordRange(vars(args)["from"], args.since_time, Stop(args.until, args.until_time))
    topics = answers.open_topics(args)
    printer = _Printer(args, topics[0].dialect, record_range, _find_wanted(args))
    print_log = printer.print
    if args.format != "text":
        if args.past_damage:
            reason = "Kafka's tool ends at the damage"
            raise UsageError(f"--past-damage cannot be used with --format {args.format}: {reason}")
        if args.json or printer.wanted:
            raise UsageError(
                f"--format {args.format} prints text of all groups and types: of the options that select, it takes "
                "only --from, --since-time, --until and --until-time, and it does not take --json"
            )
        print_log = printer.print_with_tool
    status = 0
    for topic in topics:
        try:
            for log in topic.open(record_range.stop).logs:
                print_log(log)
        except UsageError as error:
            print_error(error)
            status = 2
        except ToolCrashed as error:
            sys.stdout.flush()
            print_error(f"Kafka's own tool fails at this point: {error}")
            return max(status, 1)
    if printer.wanted and not (printer.has_printed or args.json or status):
        print_line("No record is selected.")
    errors = printer.errors
    if len(errors) > 1:
        errors = [f"{errors[0]} (and {len(errors) - 1} more)"]
    return max(status, answers.print_problems(errors))


@dataclass
class _Printer:
    args: Options
    dialect: Dialect
    range: RecordRange
    wanted: dict[str, object]
    errors: list[str] = field(default_factory=list)
    has_printed: bool = False

    def print_with_tool(self, log: Log) -> None:
        version = parse_release(self.args.kafka or NEWEST_TOOL)
        notes = Notes()
        texts = formatters.format_lines(log, version, self.range, notes)
        if self.args.format == "dump-log":
            texts = dump_log.dump(log, version, self.range)
        try:
            for text in texts:
                print_as_tool(text)
            self.errors += [str(notes.damage)] if notes.damage else []
        except BatchTooLarge as error:
            self.errors.append(str(error))

    def print(self, log: Log) -> None:
        self._log = log
        self._partition = "" if log.partition is None else f"partition {log.partition} "
        self._gaps = OffsetGaps(max(log.start_offset, self.range.first_offset or 0))
        notes = Notes()
        next_offset = log.start_offset
        damage_count = 0
        for batch in batches_until(log, self.range.stop, notes):
            next_offset = batch.next_offset
            for damage in notes.gaps[damage_count:]:
                damage_count += 1
                self.errors.append(str(damage))
                as_json = json.dumps({"partition": log.partition, "gap": asdict(damage)})
                print_line(as_json if self.args.json else f"{self._partition}damage: {damage}")
                self._gaps.skip_to(damage.to_offset)
            gap = self._find_gap(batch.base_offset, self._partition)
            try:
                lines = list(self._format_records(batch))
                self.has_printed = self.has_printed or bool(lines)
                if not self.args.json and (lines or not (self.wanted or self.range.has_start)):
                    lines.insert(0, f"{self._partition}{_describe_batch(batch)}")
            except BadBytes as error:
                lines = []
                self.errors.append(str(error))
                self._gaps.skip_to(batch.last_offset + 1)
            for line in (*gap, *lines):
                print_line(line)
        if not self.args.json:
            answers.print_cut(self.args.until, self.args.until_time, {log.partition: next_offset})
        if notes.damage:
            self.errors.append(str(describe_rest(log, notes.damage, self.dialect)))

    def _find_gap(self, offset: int, start: str) -> list[str]:
        """Only a text without filters of the content or the time shows what is missing, because filters leave out
        records.
        """
        is_complete = not (self.args.json or self.wanted or self.args.since_time is not None)
        gap = self._gaps.find_before(offset) if is_complete else None
        if gap is None:
            return []
        first, last = gap
        offsets = f"offset {first} has" if first == last else f"offsets {first} to {last} have"
        return [f"{start}gap: {offsets} no record"]

    def _format_records(self, batch: Batch) -> Iterator[str]:
        for log_record in self.range.select_records(batch):
            yield from self._find_gap(log_record.offset, "  ")
            self._gaps.skip_to(log_record.offset + 1)
            row = self._select_row(batch, log_record)
            if row is not None:
                if "error" in row:
                    self.errors.append(row["error"])
                yield json.dumps(row) if self.args.json else _to_text(batch, row)
        yield from self._find_gap(batch.last_offset + 1, "  ")

    def _select_row(self, batch: Batch, log_record: LogRecord) -> dict[str, Any] | None:
        """Return the JSON of a record; None if it does not have what is wanted."""
        row: dict[str, Any] = {
            "partition": self._log.partition,
            "offset": log_record.offset,
            "timestamp": log_record.timestamp,
            "leader_epoch": batch.partition_leader_epoch,
            **{name: getattr(batch, name) for name in ("delete_horizon_ms", "producer_id", "producer_epoch")},
            "transactional": batch.is_transactional,
            **dict.fromkeys(("control", "type", "name", "key", "value")),
        }
        facts: dict[str, Collection[object]] = {"tombstones": [log_record.value is None]}
        try:
            if batch.is_control:
                row["control"] = decode_control_key(log_record.key).text
                facts = {}
            else:
                key = decode_key(log_record.key, self.dialect)
                record = Record(key.type, key.content, None, None)
                row |= {"type": record.type, "name": record.name, "key": key_to_json(record)}
                fields = row["key"].get("data", {})
                facts |= {name: [fields.get(name)] for name in ("topic", "partition")}
                facts |= {"type": [record.type], "group": [find_group_id(record)]}
                if not all(value in facts.get(name, ()) for name, value in self.wanted.items()):
                    return None  # To convert a value takes long.
                record = decode_with_key(key, log_record.value)
                row["value"] = value_to_json(record, self.dialect)
                _decode_members(record, row["value"])
        except BadBytes as error:
            error.file = batch.file
            error.offset = log_record.offset
            row |= {"error": str(error), "key_hex": _to_hex(log_record.key), "value_hex": _to_hex(log_record.value)}
        is_selected = all(value in facts.get(name, ()) for name, value in self.wanted.items())
        return row | rules_to_json(self.dialect.rules_of) if is_selected else None


def _to_text(batch: Batch, row: dict[str, Any]) -> str:
    key = f"{row['name']}  {_format_key(row['key'])}" if row["key"] else f"key {row.get('key_hex')}"
    value = row["value"] or {"hex": "tombstone"}
    if "error" in row:
        text = f"cannot be decoded: {row['error']}: {key}, value {row['value_hex']}"
    elif row["control"]:  # The text says "marker" even if its type ends no transaction.
        text = f"marker: {row['control']}"
    elif "data" in value:
        data = json.dumps(_shorten(row["type"], value["data"]), ensure_ascii=False)
        text = f"{key}  v{value['version']} {data}"
    else:
        text = f"{key}  {value['hex']}"
    epoch = [f"leader epoch {batch.partition_leader_epoch}"] if batch.magic >= 2 else []
    return "  ".join([f"  {row['offset']}", format_time_ms(row["timestamp"]), *epoch, text])


def _shorten(record_type: int, data: dict[str, Any]) -> dict[str, Any]:
    """In the text, the decoded forms replace the bytes, and a state has its name."""
    for member in data.get("members", ()):
        for name in _DECODED_BYTES:
            member[name] = member.pop(f"{name}Data", None) or member[name]
    names = MEMBER_STATES.get(GROUP_TYPE_BY_RECORD_TYPE.get(record_type, ""), {})
    return data | {"state": names[data["state"]]} if data.get("state") in names else data


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


def _format_key(key: dict[str, Any]) -> str:
    fields = key.get("data", {"key": key.get("hex")})
    return " ".join(f"{name}={content}" for name, content in fields.items())
