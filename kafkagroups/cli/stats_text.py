"""The text of the command `stats`: the findings first, then the tables.

A legend stands below a table if its columns need one. It has one or two lines.
"""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import replace

from kafkagroups.cli import options
from kafkagroups.cli.output import TEXT_WIDTH, escape, print_line, wrap
from kafkagroups.cli.tables import print_table
from kafkagroups.cli.topic_partitions import print_topic_partitions
from kafkagroups.history.event import count_of
from kafkagroups.history.finding import TOPIC_KINDS, Finding, join_words
from kafkagroups.history.group_names import choose_large, find_prefix, name_family
from kafkagroups.history.moved_groups import MovedOffset, sort_moved
from kafkagroups.history.stats import (
    RECORDS_LOADED_PER_SECOND,
    WRITER,
    Count,
    OpenTransaction,
    PartitionStats,
    Stats,
    sort_rows,
    sort_versions,
)
from kafkagroups.history.transactions import abort_command
from kafkagroups.history.writers import WriterCount
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.record_types import RECORD_TYPES

DEFAULT_ROWS = 20
"""The default of --top in the text output. JSON contains all rows by default."""
ROW_NAME_WITHOUT_VALUE = {
    "group": "(markers, unknown)",
    "topic": "(no offset)",
    "type": "(markers, unknown)",
    "partition": "(unknown number)",
}
"""For each value of --by: the name of the row that counts the records without a group, topic, type or partition."""
HANGING = "hanging_transaction"


def print_stats(path: str, statistics: Stats, top: int | None, dialect: Dialect) -> None:
    """Print the statistics of one PATH. `top` is the value of --top; None if it is not set."""
    max_rows = DEFAULT_ROWS if top is None else top
    partitions = statistics.partitions
    largest_first = sorted(partitions, key=lambda number: -partitions[number].bytes)[:max_rows]
    rows = _sum_families(statistics)
    _print_findings(path, statistics.findings)
    _print_moved_offsets(path, statistics.moved_offsets, max_rows, dialect)
    _print_table(
        ("part.", "segm.", "batches", "records", "bytes", "live", "tombst.", "last record (UTC)"),
        [_format_partition(number, partitions[number]) for number in largest_first],
    )
    if statistics.by == WRITER:
        _print_writer_rows(statistics, max_rows)
    else:
        _print_table(
            (statistics.by, "part.", "records", "bytes", "dead", "live", "live bytes", "tombst."),
            [_format_row(name, count, statistics.by) for name, count in rows[:max_rows]],
        )
        _print_wrapped(
            f"A record is live if a Kafka {dialect.kafka} broker ({dialect.coordinator} coordinator) answers from it, "
            "or if its transaction is open."
        )
    _print_markers(statistics)
    _print_value_versions(statistics)
    row_count = len(rows) + len(statistics.writers)
    if max(len(partitions), row_count) > max_rows:
        _print_wrapped(
            f"Only the {max_rows} largest of {len(partitions)} partitions and {row_count} rows are shown; "
            "--top N shows the N largest."
        )
    _print_open_transactions(statistics)
    _print_cleaning(statistics, largest_first)
    _print_versions(statistics, largest_first)
    record_count = sum(partition.records for partition in partitions.values())
    load_seconds = record_count / RECORDS_LOADED_PER_SECOND
    if load_seconds >= 1:
        _print_wrapped(
            f"A broker needs about {load_seconds:.0f} s to load {record_count} records "
            f"(at {RECORDS_LOADED_PER_SECOND / 1e6:.1f} million records per second, measured on two cores)."
        )
    # The change of the partition count is a finding.
    print_topic_partitions(replace(statistics.topic_partitions, changed=None), dialect.coordinator)
    options.print_gaps({number: partition.gaps for number, partition in partitions.items()})


def _sum_families(statistics: Stats) -> list[tuple[object, Count]]:
    """Return the name and the counts of each row, the largest first. A family that is a finding has one row."""
    large = choose_large(statistics.families, statistics.live_records) if statistics.by == "group" else {}
    if not large:
        return sort_rows(statistics)
    summed = Stats(statistics.by)
    family_rows: dict[str, Stats] = {}
    sizes: Counter[str] = Counter()
    for name, count in statistics.rows.items():
        prefix = find_prefix(name) if isinstance(name, str) else None
        if prefix in large:
            sizes[prefix] += 1
            family_rows.setdefault(prefix, Stats(statistics.by)).add(Stats(statistics.by, rows={prefix: count}))
        else:
            summed.rows[name] = count
    for prefix, family in family_rows.items():
        summed.rows[name_family(prefix, sizes[prefix])] = family.rows[prefix]
    return sort_rows(summed)


def _print_findings(path: str, findings: list[Finding]) -> None:
    """Print a paragraph for each finding: what is wrong, and what to do."""
    _print_wrapped(f"{path}: {count_of(len(findings), 'finding') if findings else 'no findings'}.")
    for number, finding in enumerate(findings, start=1):
        is_about_all = finding.kind in TOPIC_KINDS and finding.partition is None
        where = "" if is_about_all else f" Partition {_format_number(finding.partition)}:"
        print_line("")
        _print_wrapped(f"Finding {number}.{where} {finding.what} Remedy: {finding.advice}")
        if finding.command_line:
            _print_command(finding.command_line)


def _print_command(command: str) -> None:
    """Print a shell command. A backslash ends each line except the last one, so that the lines can be copied."""
    words = escape(command).split(" --")
    line = f"    {words[0]}"
    for word in words[1:]:
        if len(line) + len(word) + 5 > TEXT_WIDTH:
            print_line(f"{line} \\")
            line = "     "
        line += f" --{word}"
    print_line(line)


def _print_moved_offsets(path: str, moved: list[MovedOffset], max_rows: int, dialect: Dialect) -> None:
    """Print the positions of the groups that moved to another partition, because the partition count was changed."""
    if not moved:
        return
    rows: list[tuple[object, ...]] = [
        (
            offset.group,
            offset.topic_partition,
            "-" if offset.old is None else offset.old.offset,
            "-" if offset.new is None else offset.new.offset,
            "old" if offset.is_newest_old else "new",
        )
        for offset in sort_moved(moved)[:max_rows]
    ]
    _print_table(("group", "topic-partition", "old position", "new position", "newest"), rows)
    _print_wrapped(
        "Old and new position: in the partition of the group before and after the change of the count. The highest "
        "position that the group reached can be larger: the end of `kafkagroups timeline` shows it. Positions whose "
        "newest commit is the old one stand first."
    )
    if len(moved) > max_rows:
        _print_wrapped(f"Only {max_rows} of {len(moved)} positions are shown. To see all:")
        _print_command(
            f"kafkagroups stats {shlex.quote(path)} --coordinator {dialect.coordinator} --kafka {dialect.kafka} "
            f"--top {len(moved)}"
        )


def _print_markers(statistics: Stats) -> None:
    """Print how many transactions were committed and aborted, if there are any markers."""
    commits = sum(partition.commit_markers for partition in statistics.partitions.values())
    aborts = sum(partition.abort_markers for partition in statistics.partitions.values())
    if commits or aborts:
        _print_wrapped(f"Markers: {count_of(commits, 'commit marker')} and {count_of(aborts, 'abort marker')}.")


def _print_value_versions(statistics: Stats) -> None:
    """Print the value versions of each record type. A program that reads the topic must know them."""
    if not statistics.value_versions:
        return
    rows: list[tuple[object, ...]] = [
        (
            _format_row_name(name.type, "type"),
            "tombstone" if name.version is None else name.version,
            count.records,
            "-" if count.first_timestamp_ms is None else options.format_time(count.first_timestamp_ms),
        )
        for name, count in sort_versions(statistics.value_versions)
    ]
    _print_table(("type", "version", "records", "first record (UTC)"), rows)
    _print_wrapped(
        "Version: of the record's value. A program that reads the topic itself has to know each of them. For example, "
        "Kafka 4.1 and newer write version 4 of OffsetCommit."
    )


def _print_writer_rows(statistics: Stats, max_rows: int) -> None:
    """Print who commits most often. The writers of a group stand together, in the order of their first commits."""
    commits: Counter[tuple[int | None, str]] = Counter()
    for writer in statistics.writers:
        commits[writer.partition, writer.key.group] += writer.commits

    def sort_key(writer: WriterCount) -> tuple[int, str, int, int]:
        group = writer.key.group
        return -commits[writer.partition, group], group, writer.first_timestamp_ms or 0, -writer.commits

    writers = sorted(statistics.writers, key=sort_key)[:max_rows]
    times = [writer.first_timestamp_ms for writer in writers] + [writer.last_timestamp_ms for writer in writers]
    days = {options.format_time(time)[:10] for time in times if time is not None}
    columns = ("group", "part.", "epoch", "recs", "commits", "share", "/min", "med. s", "first", "last")
    _print_table(columns, [_format_writer(writer, statistics, has_one_day=len(days) <= 1) for writer in writers])
    day = f" on {days.pop()}" if len(days) == 1 else ""
    _print_wrapped(
        'One row: equal leader epoch ("t": in transactions) and records per batch. Share: of the partition\'s commits. '
        f"Med. s: median interval. Times: UTC{day}."
    )


def _format_writer(writer: WriterCount, statistics: Stats, *, has_one_day: bool) -> tuple[object, ...]:
    rate = writer.commits_per_minute

    def format_time(time_ms: int | None) -> str:
        if time_ms is None:
            return "-"
        time = options.format_time(time_ms)
        return time[11:] if has_one_day else time[5:16]

    return (
        writer.key.group,
        _format_number(writer.partition),
        f"{writer.key.leader_epoch} t" if writer.key.is_transactional else writer.key.leader_epoch,
        writer.key.records_per_batch,
        writer.commits,
        f"{writer.commits / statistics.count_commits(writer.partition):.0%}",
        "-" if rate is None else _format_rate(rate),
        "-" if writer.interval_ms is None else f"{writer.interval_ms / 1000:.3f}",
        format_time(writer.first_timestamp_ms),
        format_time(writer.last_timestamp_ms),
    )


def _name_versions(versions: str) -> str:
    """Return Kafka versions, such as "2.3 – 4.0" or "4.1 – " (and newer), as words."""
    if not versions:
        return "every version"
    return f"{versions.removesuffix(' – ')} and newer" if versions.endswith(" – ") else versions


def _format_rate(per_minute: float) -> str:
    return f"{per_minute:.0f}" if per_minute >= 100 else f"{per_minute:.1f}"


def _print_open_transactions(statistics: Stats) -> None:
    """Print the open transactions that are no findings."""
    found = {(finding.partition, finding.offset) for finding in statistics.findings if finding.kind == HANGING}
    times = [partition.last_timestamp_ms or 0 for partition in statistics.partitions.values()]
    rows = [
        _format_open(number, transaction, max(times))
        for number, partition in statistics.partitions.items()
        for transaction in partition.open_transactions
        if (number, transaction.first_offset) not in found
    ]
    if not rows:
        return
    _print_table(("part.", "open from offset", "producer", "epoch", "age s", "groups"), rows)
    _print_wrapped(
        "Usually they end soon. If one outlives its producer's transaction.timeout.ms, and kafka-transactions.sh list "
        "does not show it as Ongoing, this ends it:"
    )
    _print_command(join_words(abort_command("PART", "OFFSET")))


def _format_open(number: int | None, transaction: OpenTransaction, now_ms: int) -> tuple[object, ...]:
    return (
        _format_number(number),
        transaction.first_offset,
        transaction.producer_id,
        "-" if transaction.producer_epoch is None else transaction.producer_epoch,
        "-" if transaction.since_ms < 0 else f"{(now_ms - transaction.since_ms) / 1000:.1f}",
        ", ".join(transaction.groups),
    )


def _print_cleaning(statistics: Stats, numbers: list[int | None]) -> None:
    """Print what the cleaner can and cannot clean, and what it has cleaned. `numbers` are the partitions to show."""
    columns = ("part.", "stops at", "because of", "bytes there", "frees bytes", "cleaned to", "cleaned (UTC)")
    _print_table(columns, [_format_cleaning(number, statistics.partitions[number]) for number in numbers])
    partitions = statistics.partitions.values()
    live_records = sum(partition.live_records for partition in partitions)
    live_bytes = sum(partition.live_bytes for partition in partitions)
    _print_wrapped(
        'Cleaning stops at the active segment, or at the first open transaction ("txn OFFSET"). "-": the log does not '
        "tell. The time assumes delete.retention.ms of 1 day."
    )
    if any(finding.kind == "load_failure" for finding in statistics.findings):
        return  # After the failure, the coordinator does not read on, so the live records are not known.
    _print_wrapped(
        f"A complete cleaning would keep the {live_records} live records, with about {live_bytes} bytes. It also keeps "
        "the newest record of each key that the coordinator does not read, and tombstones and markers for "
        "delete.retention.ms."
    )


def _format_cleaning(number: int | None, partition: PartitionStats) -> tuple[object, ...]:
    cleaned_ms = partition.last_cleaned_ms
    return (
        _format_number(number),
        partition.first_uncleanable_offset,
        f"txn {partition.last_stable_offset}" if partition.is_stopped_by_transaction else "active",
        partition.uncleanable_bytes,
        partition.freed_bytes,
        "-" if partition.cleaned_up_to is None else partition.cleaned_up_to,
        "-" if cleaned_ms is None else options.format_time(cleaned_ms)[:16],
    )


def _print_versions(statistics: Stats, numbers: list[int | None]) -> None:
    """Print which Kafka versions can have written which offsets. `numbers` are the partitions to show.

    If all offsets of all partitions have the same versions, one line says it.
    """
    ranges = [(number, part) for number in numbers for part in statistics.partitions[number].written_by_ranges]
    versions = {part.versions for _, part in ranges}
    if len(versions) == 1 and len(ranges) == len({number for number, _ in ranges}):
        _print_wrapped(f"Kafka versions that can have written the records: {_name_versions(versions.pop())}.")
    elif ranges:
        rows: list[tuple[object, ...]] = [
            (_format_number(number), part.first, part.last, _name_versions(part.versions)) for number, part in ranges
        ]
        _print_table(("part.", "from offset", "to offset", "can be written by Kafka"), rows)


def _print_table(columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    print_table(columns, rows, width_in_file=TEXT_WIDTH)


def _print_wrapped(line: str) -> None:
    for part in wrap(escape(line), indent=""):
        print_line(part)


def _format_row(name: object, count: Count, by: str) -> tuple[object, ...]:
    numbers = [str(_format_number(number)) for number in count.in_partitions]
    shown_partitions = ", ".join(numbers if len(numbers) <= 3 else [*numbers[:3], "…"])
    dead_records = count.records - count.live_records
    counts = (count.records, count.bytes, dead_records, count.live_records, count.live_bytes, count.tombstones)
    return (_format_row_name(name, by), shown_partitions, *counts)


def _format_row_name(name: object, by: str) -> object:
    """Return the first cell of a row. `name` is a group, topic, record type, partition or None, as `by` says."""
    if name is None:
        return ROW_NAME_WITHOUT_VALUE[by]
    if by == "type" and isinstance(name, int) and name in RECORD_TYPES:
        return RECORD_TYPES[name].name
    return name


def _format_partition(number: int | None, partition: PartitionStats) -> tuple[object, ...]:
    last_time = "" if partition.last_timestamp_ms is None else options.format_time(partition.last_timestamp_ms)
    live_percent = f"{partition.live_bytes / partition.bytes:.0%}" if partition.bytes else "-"
    return (
        _format_number(number),
        partition.segments,
        partition.batches,
        partition.records,
        partition.bytes,
        live_percent,
        partition.tombstones,
        last_time,
    )


def _format_number(partition: int | None) -> object:
    """Return a partition's number; "-" if the log's folder is not named like a partition."""
    return "-" if partition is None else partition
