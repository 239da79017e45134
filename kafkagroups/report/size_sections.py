"""The sections of a report about bytes and time: size and growth, live and dead bytes, who wrote what, load time."""

from __future__ import annotations

from collections.abc import Sequence

from kafkagroups.history.stats import RECORDS_LOADED_PER_SECOND, PartitionStats
from kafkagroups.history.writers import WriterCount
from kafkagroups.report.activity import BUCKETS, TimeAxis
from kafkagroups.report.charts import columns_chart, share_bar
from kafkagroups.report.facts import LogFacts
from kafkagroups.report.markup import Content, Html, details, element, join, limited_table, paragraph, table
from kafkagroups.report.words import (
    format_bytes,
    format_count,
    format_duration,
    format_of,
    format_partition,
    format_seconds,
    format_share,
    format_time,
)

MAX_ROWS = 20
MAX_EPOCHS = 20


def render_growth(facts: LogFacts, name: str) -> Html:
    """Return the chart of the bytes over time. `name` is the start of the ids of its elements."""
    axis = facts.axis
    if axis is None:
        return paragraph("No record has a time.")
    totals = [sum(sizes) for sizes in zip(*(part.bytes_by_bucket for part in facts.activities), strict=True)]
    step = format_duration((axis.last_ms - axis.first_ms + 1) / BUCKETS)
    peak = max(totals)
    peak_time = format_time(_find_start(axis, totals.index(peak)))
    description = (
        f"{BUCKETS} columns from {format_time(axis.first_ms)} to {format_time(axis.last_ms)} UTC. "
        f"The highest one, at {peak_time}, stands for {format_bytes(peak)}."
    )
    return join(
        paragraph(
            f"Each column stands for {step}. The highest one is {format_bytes(peak)}, at {peak_time} UTC. Bytes that "
            "the cleaner has removed are not in the chart."
        ),
        columns_chart(f"{name}-growth", "Bytes in the log by the time of their records", description, totals),
        _ends(axis),
        _buckets_as_table(axis, totals),
    )


def _find_start(axis: TimeAxis, bucket: int) -> int:
    """Return the time at which a column begins."""
    return axis.first_ms + bucket * (axis.last_ms - axis.first_ms + 1) // BUCKETS


def _ends(axis: TimeAxis) -> Html:
    return element(
        "div",
        element("span", format_time(axis.first_ms)),
        element("span", f"{format_time(axis.last_ms)} UTC"),
        class_="ends",
    )


def _buckets_as_table(axis: TimeAxis, sizes: Sequence[int]) -> Html:
    rows = [
        (format_time(_find_start(axis, bucket)), format_bytes(size), format_share(size, sum(sizes)))
        for bucket, size in enumerate(sizes)
        if size
    ]
    return details("The chart as a table", table(("from (UTC)", "bytes", "share"), rows, "Bytes by time"))


def render_live(facts: LogFacts, name: str) -> Html:
    """Return live and dead bytes: a bar for each partition."""
    partitions = facts.stats.partitions
    largest = sorted(partitions, key=lambda number: (-partitions[number].bytes, number or 0))[:MAX_ROWS]
    widest = max((partitions[number].bytes for number in largest), default=0)
    lanes = []
    rows = []
    for number in largest:
        counts = partitions[number]
        label = f"partition {format_partition(number)}"
        words = (
            f"{format_bytes(counts.live_bytes)} of {format_bytes(counts.bytes)} are live "
            f"({format_share(counts.live_bytes, counts.bytes)})"
        )
        cleaned = _describe_cleaning(counts)
        chart = share_bar(
            f"{name}-live-{format_partition(number)}",
            f"Live and dead bytes of {label}",
            words,
            counts.live_bytes,
            counts.bytes - counts.live_bytes,
            widest,
        )
        lanes.append(
            element("div", paragraph(element("b", label.capitalize()), f": {words}{cleaned}"), chart, class_="lane")
        )
        rows.append(_live_row(facts, number, counts))
    columns = (
        "partition",
        "segments",
        "records",
        "bytes",
        "live records",
        "tombstones",
        "cleaned up to record",
        "cleaned (UTC)",
        "cleaner can free",
    )
    cut = len(partitions) - len(largest)
    return join(
        paragraph(
            "Solid: live bytes, from which a broker answers. Hatched: dead bytes, which newer records replaced. A "
            "broker reads both when it loads the partition."
        ),
        *lanes,
        element("p", f"{format_of(cut, 'smaller partition')} not shown.", class_="cut") if cut else "",
        details("The bars as a table, with what the cleaner did", table(columns, rows, "The largest partitions")),
    )


def _describe_cleaning(counts: PartitionStats) -> str:
    """Return how far the cleaner has come, and what it could clean now."""
    done = ". No trace of the cleaner."
    if counts.cleaned_up_to is not None:
        done = f". Cleaned up to record {counts.cleaned_up_to} of {counts.next_offset}."
    if not counts.dirty_segments:
        return done
    closed = format_of(counts.dirty_segments, "closed segment")
    return f"{done} The cleaner could clean {closed} with {format_bytes(counts.dirty_bytes)}, and has not."


def _live_row(facts: LogFacts, number: int | None, counts: PartitionStats) -> tuple[Content, ...]:
    return (
        format_partition(number),
        counts.segments,
        format_count(counts.records),
        format_bytes(counts.bytes),
        format_count(counts.live_records),
        format_count(counts.tombstones),
        "no trace" if counts.cleaned_up_to is None else counts.cleaned_up_to,
        format_time(counts.last_cleaned_ms),
        format_bytes(counts.bytes - facts.after_cleaning[number].bytes),
    )


def render_writers(facts: LogFacts, name: str) -> Html:
    """Return who wrote what and when: the largest groups over time, writers, Kafka versions, and leader epochs."""
    axis = facts.axis
    lanes = []
    sizes: dict[str, list[int]] = {}
    for activity in facts.activities:
        for group, buckets in activity.group_bytes.items():
            known = sizes.get(group, [0] * BUCKETS)
            sizes[group] = [a + b for a, b in zip(known, buckets, strict=True)]
    total = sum(counts.bytes for counts in facts.stats.partitions.values())
    largest = sorted(sizes, key=lambda group: (-facts.stats.rows[group].bytes, group))
    for number, group in enumerate(largest if axis else []):
        row = facts.stats.rows[group]
        words = f"{format_bytes(row.bytes)} ({format_share(row.bytes, total)}), {format_of(row.records, 'record')}"
        assert axis is not None
        start = next(bucket for bucket, size in enumerate(sizes[group]) if size)
        peak = sizes[group].index(max(sizes[group]))
        description = (
            f"First records about {format_time(_find_start(axis, start))}, most bytes about "
            f"{format_time(_find_start(axis, peak))} UTC."
        )
        chart = columns_chart(
            f"{name}-group-{number}", f"Bytes of group {group} over time", description, sizes[group], 36
        )
        lanes.append(element("div", paragraph(element("b", group), f": {words}. {description}"), chart, class_="lane"))
    if axis and lanes:
        lanes.append(_ends(axis))
    return join(
        paragraph("The groups with the most bytes. Each chart has its own scale.") if lanes else "",
        *lanes,
        element("h4", "Who commits"),
        _render_commits(facts),
        element("h4", "Kafka versions and leader epochs"),
        _render_versions(facts),
    )


def _render_commits(facts: LogFacts) -> Html:
    writers = [writer for activity in facts.activities for writer in activity.writers]
    writers.sort(key=lambda writer: (-writer.commits, writer.key))
    commits = sum(writer.commits for writer in writers)
    columns = (
        "group",
        "partition",
        "leader epoch",
        "in transactions",
        "offsets per commit",
        "commits",
        "share",
        "per minute",
        "first (UTC)",
        "last (UTC)",
    )
    rows = [_writer_row(writer, commits) for writer in writers]
    return join(
        paragraph(
            "A writer is the commits of a group with the same leader epoch, transactional bit and number of offsets. "
            "A writer that appears, or that commits much more often, is a client that has changed."
        ),
        limited_table(columns, rows, "Writers, the most frequent first", MAX_ROWS),
    )


def _writer_row(writer: WriterCount, commits: int) -> tuple[Content, ...]:
    rate = writer.commits_per_minute
    return (
        writer.key.group,
        format_partition(writer.partition),
        writer.key.leader_epoch,
        "yes" if writer.key.is_transactional else "no",
        writer.key.records_per_batch,
        format_count(writer.commits),
        format_share(writer.commits, commits),
        "-" if rate is None else f"{rate:.1f}",
        format_time(writer.first_timestamp_ms),
        format_time(writer.last_timestamp_ms),
    )


def _render_versions(facts: LogFacts) -> Html:
    versions: list[tuple[Content, ...]] = [
        (format_partition(number), part.first, part.last, part.versions.strip() or "every version")
        for number, counts in facts.stats.partitions.items()
        for part in counts.written_by_ranges
    ]
    epochs: list[tuple[Content, ...]] = [
        (format_partition(activity.partition), epoch, offset, format_time(time_ms))
        for activity in facts.activities
        for epoch, offset, time_ms in activity.leader_epochs
        if epoch >= 0
    ]
    columns = ("partition", "from record", "to record", "written by Kafka")
    return join(
        paragraph(
            "A new leader epoch begins when another broker, or the same broker after a restart, becomes the leader. "
            + _describe_newest_epoch(facts)
        ),
        details(
            "Tables",
            limited_table(columns, versions, "Kafka versions that can have written the records", MAX_EPOCHS),
            limited_table(
                ("partition", "leader epoch", "from record", "time (UTC)"), epochs, "Leader epochs", MAX_EPOCHS
            ),
        ),
    )


def _describe_newest_epoch(facts: LogFacts) -> str:
    """Return a sentence about the last change of the leader epoch in the log."""
    changes = [
        (time_ms, epoch, offset, format_partition(activity.partition))
        for activity in facts.activities
        for epoch, offset, time_ms in activity.leader_epochs[1:]
    ]
    if not changes:
        return "Here, the leader epoch never changed."
    time_ms, epoch, offset, partition = max(changes)
    return (
        f"The newest one here is {epoch}: from record {offset} of partition {partition} on, {format_time(time_ms)} UTC."
    )


def render_load_time(facts: LogFacts, name: str) -> Html:
    """Return how long a load takes, now and after one pass of the cleaner."""
    now = sum(counts.records for counts in facts.stats.partitions.values())
    after = sum(cleaned.records for cleaned in facts.after_cleaning.values())
    live = sum(counts.live_records for counts in facts.stats.partitions.values())
    is_estimate = any(cleaned.is_estimate for cleaned in facts.after_cleaning.values())
    rows = []
    bars = []
    for key, label, records in (
        ("now", "Now", now),
        ("pass", "After one pass of the cleaner", after),
        ("all", "With live records only", live),
    ):
        seconds = format_seconds(records / RECORDS_LOADED_PER_SECOND)
        words = f"{seconds} for {format_of(records, 'record')}"
        chart = share_bar(f"{name}-time-{key}", f"Load time: {label}", words, records, 0, now)
        bars.append(element("div", paragraph(element("b", label), f": {words}"), chart, class_="lane"))
        rows.append((label, format_count(records), seconds))
    return join(
        *bars,
        paragraph(
            f"A broker loads about {RECORDS_LOADED_PER_SECOND / 1e6:.1f} million records per second (measured on two "
            "cores, one partition after the other). A pass cleans only closed segments before the first open "
            "transaction." + (" For large partitions, the numbers after a pass are estimated." if is_estimate else "")
        ),
        details("The bars as a table", table(("log", "records", "load time"), rows, "Load time")),
    )
