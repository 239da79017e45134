"""The command `dump`: every batch and record of a log, as text, as JSON, or as Kafka's own tools print them.

A marker is a control record that ends a transaction. Its type is COMMIT or ABORT. Control records of other types end no
transaction. The filters are in dump_filter.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from kafkagroups.cli import dump_filter, options
from kafkagroups.cli.dump_filter import DecodedRecord, RecordFilter, decode_record, make_filter
from kafkagroups.cli.dump_members import add_decoded_members, replace_member_bytes
from kafkagroups.cli.output import ToolOutput, print_line
from kafkagroups.errors import BadBytes, BatchTooLarge, UsageError
from kafkagroups.groups.after_damage import describe_rest
from kafkagroups.kafka_tools import dump_log, formatters
from kafkagroups.kafka_tools.jvm import ToolCrashed
from kafkagroups.loading.engines import pause_garbage_collector
from kafkagroups.log.batch import CODEC, Batch, LogRecord
from kafkagroups.log.damage import Gap
from kafkagroups.log.folders import open_logs
from kafkagroups.log.holes import OffsetGaps
from kafkagroups.log.record_range import RecordRange
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_json import key_to_json, value_to_json
from kafkagroups.records.serde import Record
from kafkagroups.records.versions import Version, parse_release

NEWEST_TOOL = "4.3.1"
"""The newest Kafka version whose tools `--format` reproduces."""
NAME = "dump"
HELP = "print every batch and record of a log"
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_paths(parser)
    parser.add_argument(
        "--format",
        choices=("text", "dump-log", "formatter"),
        default="text",
        help="text: readable (the default); dump-log: the output of kafka-dump-log.sh; "
        "formatter: the output of the console consumer; control characters are escaped only on a terminal",
    )
    parser.add_argument(
        "--kafka",
        metavar="VERSION",
        help=f"the Kafka version that reads and prints the records (default: {NEWEST_TOOL})",
    )
    parser.add_argument(
        "--from",
        dest="first_offset",
        type=options.parse_number,
        metavar="N",
        help="only records whose offset is N or more",
    )
    parser.add_argument("--until", type=options.parse_number, metavar="N", help=options.UNTIL_HELP)
    options.add_until_time(parser)
    parser.add_argument(
        "--since-time",
        type=options.parse_time,
        metavar="T",
        help="only records whose timestamp is T or later (T as in --until-time)",
    )
    dump_filter.add_arguments(parser)
    options.add_max_batch_bytes(parser)
    options.add_past_damage(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="one line of JSON per record, without the last line of text, which names the first offset after "
        "--until or --until-time; members of classic consumer groups have the decoded subscriptionData and "
        "assignmentData",
    )


def run(args: argparse.Namespace) -> int:
    # The records of a batch are many objects that are soon released, and none of them refers to itself.
    with pause_garbage_collector():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    dialect = options.choose_dialect(None, args.kafka)
    record_filter = make_filter(args)
    if args.format != "text" and args.past_damage:
        raise UsageError(f"--past-damage cannot be used with --format {args.format}: Kafka's tool ends at the damage")
    if args.format != "text" and (args.json or record_filter.selects_content):
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
            if args.past_damage:
                logs = [log.skip_damage() for log in logs]
            for log in logs:
                if args.format == "text":
                    _print_log(log, args, dialect, record_filter, errors)
                else:
                    _print_as_tool(log, args.format, tool_version, record_filter.record_range, errors)
        except UsageError as error:
            options.print_error(error)
            status = 2
        except ToolCrashed as error:
            sys.stdout.flush()
            options.print_error(f"Kafka's own tool fails at this point: {error}")
            return max(status, 1)
    if errors:
        sys.stdout.flush()
        others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        options.print_error(errors[0] + others)
    return max(status, int(bool(errors)))


def _print_as_tool(log: Log, tool: str, tool_version: Version, record_range: RecordRange, errors: list[str]) -> None:
    """Print the text of one of Kafka's own tools. `tool` is the value of --format.

    Append a message to `errors` if the text ends because of damaged bytes or because of --max-batch-bytes.
    """
    out = ToolOutput(sys.stdout)
    if tool == "formatter":
        for line in formatters.format_lines(log, tool_version, record_range):
            out.write(f"{line}\n")
        if log.damage:
            errors.append(str(log.damage))
        return
    try:
        dump_log.dump(log, out, tool_version, record_range)
    except BatchTooLarge as error:
        errors.append(str(error))


def _print_log(
    log: Log, args: argparse.Namespace, dialect: Dialect, record_filter: RecordFilter, errors: list[str]
) -> None:
    """Print the batches and records that the options select. Append the messages about bad data to `errors`."""
    next_offset = log.start_offset
    # Filters leave out records, so only a text without filters of the content or the time shows the gaps.
    shows_gaps = not (args.json or record_filter.selects_content or args.since_time is not None)
    gaps = _GapLines(log, args.first_offset) if shows_gaps else None
    damage_count = 0
    for batch in record_filter.record_range.read_batches(log):
        next_offset = batch.next_offset
        for damage in log.gaps[damage_count:]:
            damage_count += 1
            errors.append(str(damage))
            print_line(_format_damage(log, damage, as_json=args.json))
            if gaps:
                gaps.skip_to(damage.to_offset)
        gap_lines = gaps.format_before(batch.base_offset) if gaps else []
        try:
            lines = list(_format_records(log, batch, args, dialect, record_filter, gaps, errors))
            shows_batch = not record_filter.selects_records or bool(lines)
            if shows_batch and not args.json:
                lines.insert(0, _format_batch(log, batch))
        except BadBytes as error:
            errors.append(str(error))
            lines = []
            if gaps:
                gaps.skip_to(batch.last_offset + 1)
        for line in [*gap_lines, *lines]:
            print_line(line)
    has_limit = args.until is not None or args.until_time is not None
    if has_limit and not args.json:
        options.print_cut({log.partition: next_offset})
    _add_damage(log, dialect, errors)


def _format_damage(log: Log, gap: Gap, *, as_json: bool) -> str:
    """Return the line that marks damaged bytes between two batches."""
    if as_json:
        return json.dumps({"partition": log.partition, "gap": asdict(gap)})
    partition = "" if log.partition is None else f"partition {log.partition} "
    return f"{partition}damage: {gap}"


def _add_damage(log: Log, dialect: Dialect, errors: list[str]) -> None:
    """Append a message to `errors` if the log ends because of damaged bytes."""
    if log.damage:
        errors.append(str(describe_rest(log, log.damage, dialect)))


def _format_records(
    log: Log,
    batch: Batch,
    args: argparse.Namespace,
    dialect: Dialect,
    record_filter: RecordFilter,
    gaps: _GapLines | None,
    errors: list[str],
) -> Iterator[str]:
    """Yield a line for each selected record of a batch, and for each gap. Append the decoding errors to `errors`."""
    for log_record in record_filter.record_range.select_records(batch):
        if gaps:
            yield from gaps.format_before(log_record.offset, indent="  ")
            gaps.skip_to(log_record.offset + 1)
        decoded = decode_record(batch, log_record, dialect)
        if not record_filter.includes_content(log_record, decoded):
            continue
        if decoded.error:
            errors.append(decoded.error)
        format_record = _format_json if args.json else _format_text
        yield format_record(log, batch, log_record, decoded, dialect)
    if gaps:
        yield from gaps.format_before(batch.last_offset + 1, indent="  ")


class _GapLines:
    """The lines that mark offsets without a record, from the start of the log or from --from (`first_offset`)."""

    def __init__(self, log: Log, first_offset: int | None) -> None:
        self._partition = "" if log.partition is None else f"partition {log.partition} "
        self._gaps = OffsetGaps(max(log.start_offset, first_offset or 0))

    def format_before(self, offset: int, indent: str = "") -> list[str]:
        """Return the line of the gap right before `offset`; no line if there is no gap."""
        gap = self._gaps.find_before(offset)
        if gap is None:
            return []
        first, last = gap
        offsets = f"offset {first} has" if first == last else f"offsets {first} to {last} have"
        return [f"{indent or self._partition}gap: {offsets} no record"]

    def skip_to(self, offset: int) -> None:
        """Continue at `offset`. The offsets before it are no gap."""
        self._gaps.skip_to(offset)


def _format_json(log: Log, batch: Batch, log_record: LogRecord, decoded: DecodedRecord, dialect: Dialect) -> str:
    record = decoded.record
    fields: dict[str, Any] = {
        "partition": log.partition,
        "offset": log_record.offset,
        "timestamp": log_record.timestamp,
        "leader_epoch": batch.partition_leader_epoch,
        "delete_horizon_ms": batch.delete_horizon_ms,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "transactional": batch.is_transactional,
        "control": decoded.control_type,
        "type": None,
        "name": None,
        "key": None,
        "value": None,
    }
    if record is not None:
        fields["type"] = record.type
        fields["name"] = record.name
        fields["key"] = key_to_json(record)
        fields["value"] = value_to_json(record, dialect)
        add_decoded_members(record, fields["value"])
    elif decoded.key_record is not None:
        # Only the key can be read.
        fields["type"] = decoded.key_record.type
        fields["name"] = decoded.key_record.name
        fields["key"] = key_to_json(decoded.key_record)
    if decoded.error:
        fields["error"] = decoded.error
        fields["key_hex"] = _to_hex(log_record.key)
        fields["value_hex"] = _to_hex(log_record.value)
    return json.dumps({**fields, **options.rules_to_json(dialect.rules_of)})


def _to_hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _format_batch(log: Log, batch: Batch) -> str:
    properties = [f"magic {batch.magic}"]
    if batch.attributes & CODEC:  # The batch is compressed.
        properties = [f"magic {batch.magic} {batch.compression.name.lower()}"]
    properties.append(f"max timestamp {options.format_time_ms(batch.max_timestamp)}")
    if batch.magic >= 2:
        properties.append(f"leader epoch {batch.partition_leader_epoch}")
    if batch.producer_id >= 0:
        properties.append(f"producer {batch.producer_id}/{batch.producer_epoch}")
    if batch.is_transactional:
        properties.append("transactional")
    if batch.is_control:
        properties.append("control")
    if batch.delete_horizon_ms is not None:
        properties.append(f"delete horizon {options.format_time_ms(batch.delete_horizon_ms)}")
    partition = "" if log.partition is None else f"partition {log.partition} "
    offsets = f"offsets {batch.base_offset} to {batch.last_offset}"
    return f"{partition}{offsets}, byte {batch.position}, {batch.size} bytes, {', '.join(properties)}"


_encode_json = json.JSONEncoder(ensure_ascii=False).encode


def _format_text(log: Log, batch: Batch, log_record: LogRecord, decoded: DecodedRecord, dialect: Dialect) -> str:
    start = f"  {log_record.offset}  {options.format_time_ms(log_record.timestamp)}"
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
    key_text = _format_key(record)
    value = value_to_json(record, dialect)
    replace_member_bytes(record, value)
    if value is None:
        value_text = "tombstone"
    elif "data" in value:
        value_text = f"v{value['version']} {_encode_json(value['data'])}"
    else:
        value_text = value["hex"]
    return f"{start}  {record.name}  {key_text}  {value_text}"


def _format_key(record: Record) -> str:
    """Return the fields of a key. The key of an unknown record type has no fields, only bytes in hex."""
    key = key_to_json(record)
    fields = key.get("data", {"key": key.get("hex")})
    return " ".join(f"{name}={content}" for name, content in fields.items())
