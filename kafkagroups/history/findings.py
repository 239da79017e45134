"""What is wrong with logs, found from their statistics and their groups. Each finding ends with its remedy.

A log of a healthy broker has no findings. The rules:

- `damage`, `zeros`, `load_failure`, `partition_count_changed`: a broker cuts the log, loses batches, fails to load the
  partition, or can answer with old offsets (failures.py, misplaced_groups.py).
- `hanging_transaction`: a transaction is open for a long time, or looks like a late commit (transactions.py).
- `endless_pending_commit`: a commit has a producer id but no transaction, so that the new coordinator treats it as
  pending without end (transactions.py).
- `clock_jump`: a record is at least an hour later than a record after it (clock_jumps.py).
- `shared_instance_id`: a static member gets a new member id again and again (static_members.py).
- `uncleaned`: at least MIN_DIRTY_SEGMENTS closed segments can be cleaned and have not been cleaned, they have more than
  MAX_DIRTY_SHARE of the cleanable bytes (min.cleanable.dirty.ratio of the topic), a pass would free at least half of
  these bytes, and the log covers at least MIN_UNCLEANED_MS. A running cleaner starts seconds after a segment is closed.
- `too_large`: the partition has at least LARGE_BYTES, and less than a tenth of them are live.
- `tombstones_stay`: more than half of at least MIN_TOMBSTONES records are tombstones, although the log is older than
  twice delete.retention.ms.
- `busy_group`: a group wrote more than half of at least MIN_BUSY_RECORDS records of a partition, and more than
  BUSY_RATE commits a second for each of its offsets. Consumers with enable.auto.commit write 0.2 a second.
- `unsubscribed_offsets`: a group has members, none of them subscribes to the topic of an offset, and nothing was
  committed to this topic for UNSUBSCRIBED_MS. Members that restart would have been back.
- `misplaced_groups`: records of groups that belong to another partition (misplaced_groups.py).
- `look_alike_groups`: the ids of several groups look the same (look_alikes.py).
- `group_family`: many groups without members have similar names, and most of the live records (group_families.py).
- `mixed_writers`: an older Kafka version wrote after a newer one, as after a downgrade. An upgrade is no finding.
- `foreign_records`: records of an older Kafka version stand between records of a newer one. This is a sign that another
  program wrote them, and no proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafkagroups.groups.group import Group
from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.history.event import describe_time, list_names
from kafkagroups.history.finding import GROUPS_TOOL, Finding, join_words, sort_findings
from kafkagroups.history.group_names import describe_families, find_look_alikes
from kafkagroups.history.moved_groups import find_count_change
from kafkagroups.history.stats import DELETE_RETENTION_MS, RECORDS_LOADED_PER_SECOND, PartitionStats, Stats, sort_rows
from kafkagroups.history.transactions import find_hanging
from kafkagroups.history.writers import WriterRange

MIN_DIRTY_SEGMENTS = 2
MAX_DIRTY_SHARE = 0.5
LARGE_BYTES = 300 * 2**20
"""Three segments of the default size."""
MIN_TOMBSTONES = 1000
MIN_BUSY_RECORDS = 1_000
BUSY_RATE = 1.0
DAY_MS = 86_400_000
UNSUBSCRIBED_MS = DAY_MS
MIN_UNCLEANED_MS = 3_600_000


def find_busy(
    number: int | None, counts: PartitionStats, parts: Mapping[str, GroupParts], commits: Mapping[str, int]
) -> list[Finding]:
    """Return the findings about groups that commit far more often than others.

    `parts` are the parts of all loaded groups. `commits` has the number of the commits of each group in the partition
    with this number.
    """
    seconds = _find_span(counts) / 1000
    if counts.records < MIN_BUSY_RECORDS or not seconds:
        return []
    findings = []
    for group_id, count in commits.items():
        if 2 * count <= counts.records or group_id not in parts:
            continue
        offsets = len(parts[group_id].offsets)
        if not offsets or count / seconds / offsets <= BUSY_RATE:
            continue
        what = (
            f"Group {group_id} wrote {count} of {counts.records} records: {count / seconds:.0f} commits a second for "
            f"{offsets} offsets."
        )
        remedy = (
            "Let its clients commit less often, for example every 5 s and not after each record; "
            "kafkagroups stats --by writer shows who commits."
        )
        findings.append(Finding(number, None, group_id, None, "busy_group", what, remedy))
    return findings


def find_unsubscribed(number: int | None, counts: PartitionStats, parts: Mapping[str, GroupParts]) -> list[Finding]:
    """Return the findings about offsets of topics that no member of their group subscribes to.

    `parts` are the parts of all loaded groups; only those of the partition with this number are examined. A log that
    covers less time than UNSUBSCRIBED_MS is not examined.
    """
    if _find_span(counts) < UNSUBSCRIBED_MS:
        return []
    now_ms = counts.last_timestamp_ms or 0
    findings = []
    for group_id, group_parts in sorted(parts.items()):
        if group_parts.group.partition != number or not group_parts.offsets:
            continue
        topics = find_subscribed_topics(group_parts.decode_group())
        if topics is None:
            continue
        newest_ms: dict[str, int] = {}
        count: dict[str, int] = {}
        example: dict[str, tuple[int, str]] = {}
        for topic_partition, offset in group_parts.offsets.items():
            topic = topic_partition.topic
            if topic not in topics:
                newest_ms[topic] = max(newest_ms.get(topic, 0), offset.commit_timestamp)
                count[topic] = count.get(topic, 0) + 1
                known = example.get(topic)
                if known is None or offset.record_offset < known[0]:
                    example[topic] = (offset.record_offset, str(topic_partition))
        for topic, newest in sorted(newest_ms.items()):
            if now_ms - newest < UNSUBSCRIBED_MS:
                continue
            record_offset, name = example[topic]
            what = (
                f"Group {group_id} has {count[topic]} offsets of topic {topic}, to which no member subscribes; the "
                f"last commit is {(now_ms - newest) // DAY_MS} days old."
            )
            command = [*GROUPS_TOOL, "--delete-offsets", f"--group={group_id}", f"--topic={topic}"]
            remedy = f"If no consumer comes back to this topic, delete them: {join_words(command)}"
            findings.append(
                Finding(number, record_offset, group_id, name, "unsubscribed_offsets", what, remedy, command)
            )
    return findings


def find_subscribed_topics(group: AnyGroup) -> set[str] | None:
    """Return the topics that the members of a group subscribe to; None if they are not known.

    They are not known if the group has no members, if a subscription cannot be read, if a member subscribes to a
    pattern, or if the group is a share or streams group.
    """
    topics: set[str] = set()
    if not group.members:
        return None
    if isinstance(group, Group):
        for member in group.members.values():
            subscription = member.subscription
            if subscription is None:
                return None
            topics.update(subscription.message.topics)
        return topics
    if group.type != "consumer":
        return None
    for modern_member in group.members.values():
        metadata = modern_member.metadata
        if metadata is None or metadata.subscribed_topic_regex:
            return None
        topics.update(metadata.subscribed_topic_names)
    return topics


def add_findings(stats: Stats) -> None:
    """Add the findings that follow from the counts of all partitions, and sort all findings and rows."""
    times = [counts.last_timestamp_ms for counts in stats.partitions.values() if counts.last_timestamp_ms is not None]
    now_ms = max(times, default=0)
    for number, counts in stats.partitions.items():
        stats.findings += find_hanging(number, counts, now_ms)
        stats.findings += _find_uncleaned(number, counts)
        stats.findings += _find_too_large(number, counts)
        stats.findings += _find_tombstones(number, counts)
        stats.findings += _find_mixed_writers(number, counts)
    only_partition = next(iter(stats.partitions)) if len(stats.partitions) == 1 else None
    stats.findings += describe_families(stats.families, stats.live_records, only_partition)
    stats.findings += find_look_alikes(stats.partition_of_group)
    if stats.topic_partitions.changed is not None:
        stats.findings.append(find_count_change(stats.topic_partitions.changed))
    stats.findings = sort_findings(stats.findings)
    stats.rows = dict(sort_rows(stats))


def _find_span(counts: PartitionStats) -> int:
    """Return the time between the first and the last timestamp of a partition, in ms."""
    if counts.first_timestamp_ms is None or counts.last_timestamp_ms is None:
        return 0
    return counts.last_timestamp_ms - counts.first_timestamp_ms


def _find_uncleaned(number: int | None, counts: PartitionStats) -> Iterator[Finding]:
    cleanable_bytes = counts.bytes - counts.uncleanable_bytes
    is_dirty = counts.dirty_segments >= MIN_DIRTY_SEGMENTS and counts.dirty_bytes > MAX_DIRTY_SHARE * cleanable_bytes
    if is_dirty and _find_span(counts) >= MIN_UNCLEANED_MS and 2 * counts.freed_bytes >= counts.dirty_bytes:
        what = (
            f"The log cleaner has stopped, or it cannot clean this partition{_describe_last_pass(counts)}: it has left "
            f"out {counts.dirty_segments} closed segments with {counts.dirty_bytes} bytes, "
            f"{counts.dirty_bytes / cleanable_bytes:.0%} of what it can clean."
        )
        remedy = (
            "Look for uncleanable partitions and a stopped thread in the broker's log-cleaner.log, check "
            "log.cleaner.enable=true and cleanup.policy=compact, and restart the broker if its cleaner has stopped. "
            "Kafka 4.2.2 and 4.4.0 also give a partition up at a record in a compressed batch that is larger than "
            "max.decompressed.message.bytes (kafkagroups compact --max-decompressed-message-bytes finds it): raise "
            "this setting, and restart the broker."
        )
        offset = counts.cleaned_up_to or 0
        yield Finding(number, offset, None, None, "uncleaned", what, remedy)


def _describe_last_pass(counts: PartitionStats) -> str:
    """Return what the log tells about the last pass of the cleaner, as an aside in a sentence."""
    if counts.cleaned_up_to is None:
        return " (no trace of a pass)"
    if counts.last_cleaned_ms is None:
        return f" (the last pass that left a trace ended at offset {counts.cleaned_up_to})"
    return f" (the last pass that left a trace was at {describe_time(counts.last_cleaned_ms)})"


def _find_too_large(number: int | None, counts: PartitionStats) -> Iterator[Finding]:
    if counts.bytes >= LARGE_BYTES and 10 * counts.live_bytes < counts.bytes:
        what = (
            f"The partition has {counts.bytes} bytes, but only {counts.live_bytes} are live; a broker needs about "
            f"{counts.records / RECORDS_LOADED_PER_SECOND:.0f} s to load it."
        )
        remedy = (
            "Remove what stops the cleaner (the other findings, log-cleaner.log); if nothing stops it, lower "
            "segment.bytes and min.cleanable.dirty.ratio of __consumer_offsets, so that it cleans earlier."
        )
        yield Finding(number, None, None, None, "too_large", what, remedy)


def _find_tombstones(number: int | None, counts: PartitionStats) -> Iterator[Finding]:
    is_majority = counts.tombstones >= MIN_TOMBSTONES and 2 * counts.tombstones > counts.records
    if is_majority and _find_span(counts) > 2 * DELETE_RETENTION_MS:
        what = (
            f"{counts.tombstones} of {counts.records} records are tombstones that no pass of the cleaner has removed."
        )
        remedy = (
            "Two passes remove a tombstone, delete.retention.ms apart: check that the cleaner runs (log-cleaner.log) "
            "and that delete.retention.ms of __consumer_offsets is a day or less."
        )
        yield Finding(number, None, None, None, "tombstones_stay", what, remedy)


def _find_mixed_writers(number: int | None, counts: PartitionStats) -> Iterator[Finding]:
    """Yield the findings about older records after newer ones, and about older records between newer ones."""
    newest: WriterRange | None = None
    between: list[WriterRange] = []
    newest_before: WriterRange | None = None
    ranges = counts.written_by_ranges
    for index, part in enumerate(ranges):
        if newest is None or not part.writers.until <= newest.writers.since:
            if newest is None or part.writers.since > newest.writers.since:
                newest = part
        elif any(part.writers.until <= later.writers.since for later in ranges[index + 1 :]):
            between.append(part)
            newest_before = newest_before or newest
        else:
            what = (
                f"An older Kafka version ({part.versions.strip()}) wrote from offset {part.first} on, after a newer "
                f"one ({newest.versions.strip()})."
            )
            remedy = (
                "Let all brokers run the same Kafka version and inter.broker.protocol.version, so that the next "
                "coordinator of the partition can read its records."
            )
            yield Finding(number, part.first, None, None, "mixed_writers", what, remedy)
            break
    if newest_before is not None:
        yield _describe_foreign(number, between, newest_before)


def _describe_foreign(number: int | None, between: list[WriterRange], newest: WriterRange) -> Finding:
    """Return the finding about older records that stand between newer ones."""
    places = [f"{part.first}" if part.first == part.last else f"{part.first} to {part.last}" for part in between]
    first = between[0]
    what = (
        f"Another program may have written the records at {list_names(places)} into the topic. They have the form of "
        f"an older Kafka version ({first.versions.strip()}), and a newer one ({newest.versions.strip()}) wrote before "
        "and after them."
    )
    remedy = (
        f"Look at these records: kafkagroups dump PARTITION --from {first.first} --until {first.last + 1}. If brokers "
        "of two versions led this partition in turn, the records are theirs. If not, find the program, and take away "
        "its right to write to __consumer_offsets: offsets are set with kafka-consumer-groups.sh --reset-offsets."
    )
    return Finding(number, first.first, None, None, "foreign_records", what, remedy)
