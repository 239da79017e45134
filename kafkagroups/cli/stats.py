"""The command `stats`.

A record is live if a broker answers from it, or if its transaction is open. Other records are dead.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from operator import attrgetter
from typing import Any

from kafkagroups.cli import answers
from kafkagroups.cli.options import SPARK, Options
from kafkagroups.cli.output import format_time, print_findings, print_table, print_text
from kafkagroups.errors import UsageError
from kafkagroups.history import stats
from kafkagroups.history.finding import count_of, list_names
from kafkagroups.records.releases import VersionRange, parse_newest_patch, rules_to_json
from kafkagroups.records.serde import RECORD_TYPES
from kafkagroups.topic import Topic

DEFAULT_ROWS = 20
"""The default of --top in the text. JSON contains all rows by default."""
_COUNTS = attrgetter("segments", "batches", "records", "bytes")
_RECORDS_AND_FIRST = attrgetter("records", "first_timestamp_ms")
_CLEANING = attrgetter("first_uncleanable_offset", "stops_because_of", "uncleanable_bytes", "freed_bytes")
_CLEANED = attrgetter("cleaned_up_to", "last_cleaned_ms")
ARGUMENTS = f"""
PATH...
--by {"|".join(stats.ROW_KINDS)}=group  what a row counts; writer: commits of a group with equal batch size and
    leader epoch
--top N  at most N rows in each table, the largest first (default: {DEFAULT_ROWS}; with --json: all rows)
--coordinator --kafka --partitions
{SPARK}
--max-batch-bytes --past-damage --fail-on-findings --json
"""
EXAMPLES = """\
  kafkagroups stats /var/lib/kafka/data/__consumer_offsets-12
  kafkagroups stats FOLDER --by partition --top 5
  kafkagroups stats s3://bucket/log --engine spark --master spark://host:7077"""


def run(args: Options) -> int:
    if args.top is not None and args.top < 1:
        raise UsageError(f"--top: expected at least 1, found {args.top}")

    def stats_to_json(topic: Topic, statistics: stats.Stats) -> dict[str, Any]:
        return {"path": topic.path, **rules_to_json(topic.dialect.rules_of), **statistics.to_json(args.top)}

    return answers.answer_each(args, lambda topic: topic.stats(args.by), _print_stats, stats_to_json)


def _print_stats(args: Options, topic: Topic, statistics: stats.Stats) -> None:
    top = args.top or DEFAULT_ROWS
    partitions = statistics.partitions
    by_size = sorted(partitions.items(), key=lambda item: -item[1].bytes)
    largest = by_size[:top]
    commits, aborts = (statistics.total(f"{kind}_markers") for kind in ("commit", "abort"))
    rows = stats.sort_rows(statistics)
    findings = statistics.findings
    lacks_count = statistics.topic_partitions.count is None and statistics.topic_partitions.shared_groups
    none = f"no findings about the log{', without the partition count: see the end' if lacks_count else ''}"
    print_text(f"{topic.path}: {count_of(len(findings), 'finding') if findings else none}.")
    print_findings(findings)
    if statistics.unwatched:
        names = list_names(statistics.unwatched)
        print_text(f"Too many records to look for storms, skips and second writers (kafkagroups timeline): {names}.")
    _print_moved_offsets(statistics.moved_offsets, top)
    live = {number: f"{part.live_bytes / part.bytes:.0%}" if part.bytes else None for number, part in largest}
    print_table(
        ("part.", "segm.", "batches", "records", "bytes", "live", "tombst.", "newest time (UTC)"),
        [(number, *_COUNTS(part), live[number], part.tombstones, part.last_timestamp_ms) for number, part in largest],
    )
    print_table(
        (statistics.by, "part.", "records", "bytes", "dead", "live", "live bytes", "tombst."),
        [_list_cells(name, count, statistics.by, commits + aborts) for name, count in rows[:top]],
        note=f"A record is live if a Kafka {topic.dialect.kafka} broker ({topic.dialect.coordinator} coordinator) "
        "answers from it, or if its transaction is open.",
    )
    _print_writers(statistics, top)
    if commits or aborts:
        print_text(f"Markers: {count_of(commits, 'commit marker')} and {count_of(aborts, 'abort marker')}.")
    print_table(
        ("type", "version", "records", "first record (UTC)"),
        [
            (_name_row(type_id, "type"), "tombstone" if version is None else version, *_RECORDS_AND_FIRST(each))
            for (type_id, version), each in stats.sort_versions(statistics.value_versions)
        ],
        note="Version: of the record's value. A program that reads the topic itself has to know each of them.",
    )
    row_count = len(rows) + len(statistics.writers)
    if max(len(partitions), row_count) > top:
        print_text(f"Shown: the {top} largest of {len(partitions)} partitions and {row_count} rows (see --top).")
    _print_open_transactions(statistics)
    _print_cleaning(statistics, largest)
    _print_versions(topic.dialect.kafka, by_size, top)
    # The change of the partition count is a finding.
    answers.print_topic_partitions(replace(statistics.topic_partitions, changed=None), topic.dialect.coordinator)


def _print_moved_offsets(moved: list[dict[str, Any]], top: int) -> None:
    print_table(
        ("group", "topic-partition", "old position", "new position", "newest"),
        [list(each.values()) for each in sorted(moved, key=lambda each: each["newest"] != "old")[:top]],
        note="Old and new position: in the partition of the group before and after the change of the count. The "
        "highest committed offset can be larger (kafkagroups timeline). Those whose newest commit is old are first.",
    )
    if len(moved) > top:
        print_text(f"Only {top} of {len(moved)} positions are shown: --top {len(moved)} shows all.")


def _list_cells(name: object, count: stats.Count, by: str, markers: int) -> tuple[object, ...]:
    numbers = ["-" if number is None else str(number) for number in count.in_partitions]
    shown_partitions = ", ".join(numbers if len(numbers) <= 3 else [*numbers[:3], "…"])
    dead = count.records - count.live_records
    counts = (count.records, count.bytes, dead, count.live_records, count.live_bytes, count.tombstones)
    is_markers = name is None and by != "partition" and 0 < count.records == markers
    return ("(markers)" if is_markers else _name_row(name, by), shown_partitions, *counts)


def _name_row(name: object, by: str) -> object:
    if by == "type" and isinstance(name, int) and name in RECORD_TYPES:
        return RECORD_TYPES[name].name
    return "(none)" if name is None else name  # Markers and unknown records have no group and no type.


def _print_writers(statistics: stats.Stats, top: int) -> None:
    commits: Counter[tuple[int | None, str]] = Counter()
    for writer in statistics.writers:
        commits[writer.partition, writer.group] += writer.commits

    def sort_key(writer: stats.WriterCount) -> tuple[int, str, int, int]:
        group = writer.group
        return -commits[writer.partition, group], group, writer.first_timestamp_ms or 0, -writer.commits

    def list_cells(writer: stats.WriterCount) -> tuple[object, ...]:
        rate = writer.commits_per_minute
        ends = (writer.first_timestamp_ms, writer.last_timestamp_ms)
        return (
            writer.group,
            writer.partition,
            f"{writer.leader_epoch} t" if writer.transactional else writer.leader_epoch,
            writer.records_per_batch,
            writer.commits,
            f"{writer.commits / statistics.count_commits(writer.partition):.0%}",
            None if rate is None else f"{rate:.{int(rate < 100)}f}",
            None if writer.interval_ms is None else f"{writer.interval_ms / 1000:.3f}",
            *(None if ms is None else format_time(ms)[start:end] for ms in ends),
        )

    shown = sorted(statistics.writers, key=sort_key)[:top]
    times = {format_time(ms) for each in shown for ms in (each.first_timestamp_ms, each.last_timestamp_ms) if ms}
    days = {time[:10] for time in times}
    # So that the table fits: no date if there is only one, and otherwise the seconds only to tell times apart.
    start = 5 if len(days) > 1 else 11
    end = 16 if len(days) > 1 and len({time[:16] for time in times}) == len(times) else 19
    print_table(
        ("group", "part.", "epoch", "recs", "commits", "share", "/min", "med. s", "first", "last"),
        [list_cells(writer) for writer in shown],
        note='One row: equal broker epoch ("t": transactions) and batch size, perhaps two programs. Share: of the '
        f"partition's commits. Med. s: median interval. Times: UTC{f' of {days.pop()}' if len(days) == 1 else ''}.",
    )


def _print_open_transactions(statistics: stats.Stats) -> None:
    rows = []
    for number, part in statistics.partitions.items():
        for each in part.open_transactions:
            age = None if each.since_ms < 0 else f"{(statistics.newest_ms - each.since_ms) / 1000:.1f}"
            place = (number, each.first_offset, each.producer_id, each.producer_epoch)
            rows.append((*place, age, ", ".join(each.groups)))
    print_table(
        ("part.", "open from offset", "producer", "epoch", "age s", "groups"),
        rows,
        note="Age: at the newest record. A transaction up to the default of transaction.timeout.ms (60 s) was probably "
        "still running. One that hangs, or for which clients wait, is a finding, with what ends it.",
    )


def _print_cleaning(statistics: stats.Stats, largest: list[tuple[int | None, stats.PartitionStats]]) -> None:
    print_table(
        ("part.", "stops at", "because of", "bytes there", "frees bytes", "cleaned to", "cleaned (UTC)"),
        [(number, *_CLEANING(part), *_CLEANED(part)) for number, part in largest],
        note='A pass stops at the active segment ("active"), an open transaction ("txn OFFSET") or damaged bytes '
        '("damage OFFSET": it fails, and frees nothing). Bytes there: what a pass does not reach. Cleaned: the end '
        'and time of the last pass, or "-" if the log does not show them. Times assume delete.retention.ms of 1 day.',
    )
    # After a failure, the coordinator does not read on, so the live records are not known.
    if not any(finding.kind == "load_failure" for finding in statistics.findings):
        print_text(
            f"A complete cleaning would keep the {statistics.total('live_records')} live records, with about "
            f"{statistics.total('live_bytes')} bytes. It also keeps tombstones and markers for delete.retention.ms, "
            "and the newest record of each key whose type this coordinator does not know."
        )


def _print_versions(kafka: str, by_size: list[tuple[int | None, stats.PartitionStats]], top: int) -> None:
    ranges = [(number, each) for number, part in by_size for each in part.written_by_ranges]
    rows = [(number, each.first, each.last, _name_versions(each.versions)) for number, each in ranges]
    versions = {row[-1] for row in rows}
    if len(versions) == 1 and len(rows) == len({row[0] for row in rows}):
        print_text(f"Kafka versions that can have written the records: {versions.pop()}.")
    else:
        print_table(("part.", "from offset", "to offset", "can be written by Kafka"), rows[:top])
    if VersionRange.common_to(each.writers for _, each in ranges).is_empty():
        print_text(f"Several Kafka versions wrote this log. The rules of Kafka {kafka} tell what is live in all of it.")
    if any(each.writers.since > parse_newest_patch(kafka) for _, each in ranges):
        print_text(f"Some records are newer than Kafka {kafka}, whose rules can misread or skip them: see --kafka.")


def _name_versions(versions: str) -> str:
    return f"{versions.removesuffix('– ')}and newer" if versions.endswith(" – ") else versions or "every version"
