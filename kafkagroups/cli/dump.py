"""`kafkagroups dump`: every batch and record of a log."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from kafkagroups.cli import options
from kafkagroups.cli.tables import escape
from kafkagroups.errors import BadBytes, UsageError
from kafkagroups.groups.loading import group_of
from kafkagroups.kafka_tools import dump_log, formatters
from kafkagroups.kafka_tools.jvm import ToolDied
from kafkagroups.loading.groups import take
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.segments import Log, open_logs
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.serde import RECORD_TYPES, Record, decode, key_to_json, value_to_json
from kafkagroups.records.versions import Dialect, parse_release

NEWEST_TOOL = "4.3.1"
NAME = "dump"
HELP = "print every batch and record of a log"
EXAMPLES = """\
examples:
  kafkagroups dump data/harbour/1.0.1/__consumer_offsets-9
  kafkagroups dump LOG --group billing --json | jq .value
  kafkagroups dump LOG --from 20 --until 40 --type OffsetCommit
  kafkagroups dump LOG --format dump-log --kafka 1.0.1
      what kafka-dump-log.sh --offsets-decoder --print-data-log --deep-iteration of that Kafka prints (since 0.10.2)
  kafkagroups dump LOG --format formatter --kafka 2.8.2
      what kafka-console-consumer.sh prints with OffsetsMessageFormatter and GroupMetadataMessageFormatter"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="a partition directory, a .log file or a folder of them"
    )
    parser.add_argument(
        "--format",
        choices=("text", "dump-log", "formatter"),
        default="text",
        help="for people, as kafka-dump-log.sh, or as the console consumer's formatters",
    )
    parser.add_argument("--kafka", metavar="VERSION", help=f"as which Kafka reads and prints it ({NEWEST_TOOL})")
    parser.add_argument("--from", dest="first", type=int, metavar="N", help="only records from this offset on")
    parser.add_argument("--until", type=int, metavar="N", help="only records below this offset, by whole batches")
    options.add_until_time(parser)
    parser.add_argument("--group", metavar="G", help="only records of this group")
    parser.add_argument("--type", metavar="T", help="only records of this type: a number, or a name as OffsetCommit")
    parser.add_argument("--json", action="store_true", help="a line a record")


def run(args: argparse.Namespace) -> int:
    rules = options.choose_dialect(None, args.kafka)
    limits = (args.group, args.type, args.first, args.until, args.until_time)
    if args.format != "text" and (args.json or any(limit is not None for limit in limits)):
        raise UsageError(f"--format {args.format} prints whole logs, without other options")
    wanted, tool = _wanted_type(args.type), parse_release(args.kafka or NEWEST_TOOL)
    worst = 0
    errors: list[str] = []
    for path in args.paths:
        try:
            logs = open_logs(path)
            if len(logs) > 1 and args.until is not None:
                raise UsageError(f"an offset to stop at needs one partition, {path} has {len(logs)}")
            for log in logs:
                if args.format == "text":
                    _dump(log, args, rules, wanted, errors)
                elif args.format == "dump-log":
                    dump_log.dump(log, sys.stdout, tool)
                else:
                    for line in formatters.lines(log, tool):
                        print(line)
                    _note_damage(log, errors)
        except UsageError as error:
            options.print_error(error)
            worst = 2
        except ToolDied as error:
            sys.stdout.flush()
            options.print_error(f"Kafka's tool dies here: {error}")
            return max(worst, 1)
    if errors:
        sys.stdout.flush()
        options.print_error(errors[0] + (f" (and {len(errors) - 1} more)" if errors[1:] else ""))
    return max(worst, int(bool(errors)))


def _wanted_type(text: str | None) -> int | None:
    names = {kind.name: kind.id for kind in RECORD_TYPES.values()}
    if text is None or text in names:
        return names[text] if text else None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--type: a number or one of {', '.join(names)} was expected, not {text!r}") from None


def _dump(log: Log, args: argparse.Namespace, rules: Dialect, wanted: int | None, errors: list[str]) -> None:
    everything = not (args.group or wanted is not None or args.first is not None)
    for batch in take(log, args.until, args.until_time):
        try:
            lines = list(_lines(log, batch, args, rules, wanted, errors))
            if not args.json and (lines or everything):
                lines.insert(0, _batch_line(log, batch))
        except BadBytes as error:
            errors.append(str(error))
            continue
        for line in lines:
            print(line)
    _note_damage(log, errors)


def _note_damage(log: Log, errors: list[str]) -> None:
    if log.damage:
        damage = log.damage
        errors.append(f"{damage.file}, byte {damage.position}: the log ends here: {damage.reason}")


def _lines(
    log: Log, batch: Batch, args: argparse.Namespace, rules: Dialect, wanted: int | None, errors: list[str]
) -> Iterator[str]:
    for log_record in batch.records:
        if args.first is not None and log_record.offset < args.first:
            continue
        record, error, control = _read(batch, log_record, rules)
        if args.group is not None and (record is None or group_of(record) != args.group):
            continue
        if wanted is not None and (record is None or record.type != wanted):
            continue
        if error:
            errors.append(error)
        show = _json_line if args.json else _text_line
        yield show(log, batch, log_record, record, rules, error, control)


def _read(batch: Batch, log_record: LogRecord, rules: Dialect) -> tuple[Record | None, str | None, str | None]:
    """The decoded record, the error where it cannot be decoded, and what a control record says."""
    try:
        if not batch.is_control:
            return decode(log_record.key, log_record.value, rules), None, None
        kind = decode_control_key(log_record.key)
        return None, None, kind.name.lower() if kind in (ControlType.COMMIT, ControlType.ABORT) else kind.name
    except BadBytes as error:
        error.file, error.offset = batch.file, log_record.offset
        return None, str(error), None


def _json_line(
    log: Log,
    batch: Batch,
    log_record: LogRecord,
    record: Record | None,
    rules: Dialect,
    error: str | None,
    control: str | None,
) -> str:
    out: dict[str, Any] = {
        "partition": log.partition,
        "offset": log_record.offset,
        "timestamp": log_record.timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "transactional": batch.is_transactional,
        "control": control,
        "type": record and record.type,
        "name": record and record.name,
        "key": record and key_to_json(record),
        "value": record and value_to_json(record, rules),
    }
    if error:
        out["error"] = error
        out["key_hex"], out["value_hex"] = _hex(log_record.key), _hex(log_record.value)
    return json.dumps(out)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _batch_line(log: Log, batch: Batch) -> str:
    codec = "" if not batch.attributes & 0x07 else f" {batch.compression.name.lower()}"
    kinds = [f"magic {batch.magic}{codec}"]
    if batch.producer_id >= 0:
        kinds.append(f"producer {batch.producer_id}/{batch.producer_epoch}")
    kinds += ["transactional"] * batch.is_transactional + ["control"] * batch.is_control
    if batch.delete_horizon_ms is not None:
        kinds.append(f"delete horizon {batch.delete_horizon_ms}")
    where = "" if log.partition is None else f"partition {log.partition} "
    return f"{where}offsets {batch.base_offset} to {batch.last_offset}, byte {batch.position}, {batch.size} bytes, " + (
        ", ".join(kinds)
    )


def _text_line(
    log: Log,
    batch: Batch,
    log_record: LogRecord,
    record: Record | None,
    rules: Dialect,
    error: str | None,
    control: str | None,
) -> str:
    if error:
        raw = f"key {_hex(log_record.key)}, value {_hex(log_record.value)}"
        return f"  {log_record.offset}  cannot be decoded: {escape(error)}: {raw}"
    if record is None:
        return f"  {log_record.offset}  marker: {control}"
    key = key_to_json(record)
    value = value_to_json(record, rules)
    about = " ".join(f"{name}={content}" for name, content in key.get("data", {"key": key.get("hex")}).items())
    if value is None:
        what = "tombstone"
    elif "data" in value:
        what = f"v{value['version']} " + json.dumps(value["data"], ensure_ascii=False)
    else:
        what = value["hex"]
    return escape(f"  {log_record.offset}  {record.name}  {about}  {what}")
