"""A finding: something that is wrong with a log, where it is, and what to do; and the words of its sentences."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from kafkagroups.loading.partition_count import MAX_FITTING, PartitionCountChange, TopicPartitions
from kafkagroups.log.batch import NO_TIMESTAMP
from kafkagroups.log.segment_file import partition_for

LISTED_NAMES = 3
LISTED_GROUPS = 20
"""More names than in other sentences: a group that is not named can lose records unnoticed."""
SHARE_NOTE = "The offsets of a share group are not in this log, but in the topic __share_group_state."
_UNITS = ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))
"""The units of a duration: ms and name. A duration of less than two units is given in the next smaller unit."""


def time_or_none(timestamp: int) -> int | None:
    return None if timestamp == NO_TIMESTAMP else timestamp


def list_names(names: Sequence[object], limit: int = LISTED_NAMES) -> str:
    """Return names for a sentence, for example "a, b, c and 2 more"."""
    listed = ", ".join(str(name) for name in names[:limit])
    more = len(names) - limit
    return f"{listed} and {more} more" if more > 0 else listed


def list_groups(group_ids: Iterable[str]) -> str:
    return list_names(sorted(group_ids), LISTED_GROUPS)


def count_of(count: int, noun: str, ending: str = "s") -> str:
    """Return a number with its noun, for example "1 record" or "2 records"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}{ending}"


def describe_time(ms: int) -> str:
    """A time (ms since 1970) for a sentence, to the second. A record can contain any number."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms since 1970"


def describe_duration(duration_ms: int) -> str:
    """Return a duration for a sentence, for example "61 s" or "7 days"."""
    for unit_ms, name in _UNITS:
        if duration_ms >= 2 * unit_ms:
            return f"{(duration_ms + unit_ms // 2) // unit_ms} {name}"
    return f"{duration_ms} ms"


def name_record(partition: int | None, offset: int) -> str:
    """The place of a record, for example 9:43. The partition is left out if it has no number."""
    return f"{offset}" if partition is None else f"{partition}:{offset}"


def describe_count_change(change: PartitionCountChange, groups: Sequence[str]) -> str:
    counts = (change.from_count, change.to_count)
    moves = [f"{group} ({' → '.join(str(partition_for(group, count)) for count in counts)})" for group in groups]
    return (
        f"The topic's partition count was changed from {change.describe_old_counts()} to {change.to_count}, at the "
        f"latest at {describe_time(change.since_ms)}. {count_of(len(groups), 'group')} moved to another partition: "
        f"{list_names(moves, LISTED_GROUPS)}."
    )


def describe_topic(topic: TopicPartitions, coordinator: str, group: str | None = None) -> Iterator[str]:
    """Yield whether the partition count was changed, what was assumed about it, and which partitions are missing.

    There is a line only if the count can change an answer, and if it concerns the `group`, if there is one. Something
    was assumed if the caller did not give the count. The classic coordinator has one cache, so there only the order in
    which the partitions are loaded changes an answer.
    """
    change = topic.changed
    if change is not None and group in (None, *change.groups):
        yield describe_count_change(change, change.groups if group is None else [group])
    shared = sorted(name for name in topic.shared_groups if group in (None, name))
    if coordinator == "classic" and shared:
        yield (
            "A classic broker answers from the partition that it loads first, here the one with the lowest number. In "
            f"another order of loading, the answers can change for: {list_names(shared)}."
        )
    affected = {*topic.shared_groups, *topic.misplaced_groups} if coordinator == "new" else set()
    names = list_names(sorted(affected if group is None else affected & {group}))
    if names and topic.origin == "folder":
        yield (
            f"The topic has {topic.count} partitions, as this folder (--partitions N sets another count). "
            f"Only the home partition answers for: {names}."
        )
    elif names and topic.origin != "option":
        only = [f" ({count} is the only one up to {MAX_FITTING} that fits all groups)" for count in topic.fitting]
        yield (
            "The topic's partition count is unknown: set it with --partitions N, one more than the highest partition "
            f"number on any broker{only[0] if len(only) == 1 else ''}. Until then, a group's first partition answers, "
            f"and nothing says whether the count was changed. The answer can be wrong for: {names}."
        )
    if topic.beyond:
        noun = "partition" if len(topic.beyond) == 1 else "partitions"
        yield (
            f"--partitions says that the topic has {topic.count} partitions, but the path has {noun} "
            f"{list_names(topic.beyond)}. A wrong count gives wrong answers: look up offsets.topic.num.partitions."
        )
    if topic.missing and group is None:
        ranges = [str(part[0]) if len(part) == 1 else f"{part[0]} to {part[-1]}" for part in topic.missing]
        noun = "partition" if sum(map(len, topic.missing)) == 1 else "partitions"
        names = f"{noun} {', '.join(ranges)}"
        names = f"at least {names}" if topic.count is None else f"{names} of {topic.count}"
        yield f"Missing in this folder: {names}. The groups stored there are not shown."


TOPIC_KINDS = ("group_family", "look_alike_groups", "partition_count_changed", "topic_created_again")
"""The kinds of findings that can be about the whole topic. Their partition is then None."""
GROUPS_TOOL = ("kafka-consumer-groups.sh", "--bootstrap-server", "HOST:PORT")
TRANSACTIONS_TOOL = ("kafka-transactions.sh", "--bootstrap-server", "HOST:PORT")
REMEDIES = {
    "busy_group": "Find the program first, because two programs can share a group id: kafkagroups stats --by writer "
    "shows who commits. Let that one commit less often, for example every 5 s and not after each record.",
    "damage": "Copy the partition's folder before a broker starts: a recovery after an unclean stop cuts the log "
    "here, and any other start reads these bytes as they are, or fails to load the partition. kafkagroups load PATH "
    "--past-damage reads both sides. Compare another replica (kafkagroups diff), and let the whole one lead.",
    "deleted_segments": "If another replica has these segments, let its broker lead, and let this one fetch the "
    "partition again. Otherwise, before a broker restarts or the leadership moves, write down the offsets that "
    "kafka-consumer-groups.sh still shows, and compare them with what the applications have processed. The topic "
    "needs cleanup.policy=compact and nothing else:",
    "early_expiry": "If your brokers keep offsets longer, commit them before then, with a client of 2.1 or newer.",
    "expiry_in_use": "Let the program that commits join the group (subscribe instead of assign), or give it a group "
    "id of its own; a longer offsets.retention.minutes holds for all groups.",
    "group_family": "A group that still commits (kafkagroups timeline) is in use. Give the program of the others one "
    "fixed group id, or let it delete its group. Then delete the old ones; the log grows by tombstones first:",
    "hanging_transaction": "The log alone does not prove that it hangs. If it is still open in a new copy of this "
    "partition, and kafka-transactions.sh list does not show the transaction of this producer id as Ongoing, end it:",
    "large_commits": "The metadata of a commit is no place for state: a broker refuses more than "
    "offset.metadata.max.bytes (4096 by default), and the position then stands still. kafkagroups explain shows "
    "whether the longest metadata grow towards it. Of many members, each generation is one large record.",
    "load_failure": "Run kafkagroups check without --to first: this partition has no answers to compare.",
    "load_memory": "Upgrade to 4.0.2, 4.1.1 or a newer release first. If that is not possible, let the cleaner "
    "compact the partition, and give the brokers more heap, before the next election.",
    "look_alike_groups": "See with kafkagroups timeline which group the consumers use. If they have the wrong id, "
    "stop them, correct it, and give the right group the newest offsets of the wrong one. If a command had it, stop "
    "the consumers of the right group before you repeat the command.",
    "partition_count_changed": "Before a broker starts, stop the consumers of these groups, and note their newest "
    "positions (kafkagroups stats lists the old and the new ones). After the start, set what is older with "
    "kafka-consumer-groups.sh --reset-offsets; a group that is far ahead can have skipped records. The newest offsets "
    "are in the new partitions: do not delete them.",
    "skipped": "Save the group's offsets with kafkagroups rescue plan, because they expire once it has no members. "
    "Then stop its members before the change; those that start afterwards need a protocol that the other release has.",
    "skipped_records": "A backlog or a burst looks the same: ask first what was processed. If records are missing, "
    "find out who committed this: a consumer that began at the end (auto.offset.reset), a tool, or another program. "
    "Let another group read them, or stop this one, and set the offset before: it repeats the later ones, too.",
    "two_writers": "If one program does both (see the members), leave one way (enable.auto.commit=false). If not, give "
    "each a group id of its own: each goes on at the other's offset.",
    "unassigned_partition": "Read the log of the group's leader (new protocol: of the coordinator) for a member with "
    "another assignor, or metadata that miss the partition. A restart of the leader assigns anew.",
    "uncleaned": "Check log.cleaner.enable=true and cleanup.policy=compact. Repair the error in log-cleaner.log. Then, "
    "for a dead thread, change log.cleaner.threads; for an uncleanable partition, restart this broker.",
    "unrevoked_partition": "If a new copy shows the same, and its positions stand still, its poll loop or rebalance "
    "listener is stuck; if they move, it finishes a batch. Others get them when it leaves or its session times out.",
    "zeros": "Delete .kafka_cleanshutdown in log.dirs before the broker starts, or restarts for a failover to it: "
    "recovery then cuts the zeros off.",
}
"""What to do about the kinds of findings whose remedy does not depend on what was found."""
OUTSIDER_REMEDY = (
    "Find what commits while the group has no member, for example an offset sync (MirrorMaker 2), and stop it. Until "
    "then, keep a member in the group: a broker refuses such commits then. Another group id only loses positions."
)
"""Of `two_writers`, if one of them is no member."""


@dataclass(frozen=True)
class Finding:
    """Something that is wrong with a log.

    Attributes
    ----------
    partition
        The partition of the offsets topic; None if the log's folder has no partition number.
    offset
        The Kafka offset in that partition where the problem begins; None if it has no place.
    group
        The id of the group that the finding is about; None if it is about the whole partition, or several groups.
    topic_partition
        The topic partition of the committed offset that it is about, for example "orders-0", if any.
    kind
        A word for programs, for example "hanging_transaction".
    what
        One sentence that says what is wrong.
    remedy
        One sentence that says what to do, with the text of the command, if it names one.
    command
        The words of the command that the remedy names. A word in capital letters, for example HOST:PORT, stands for
        what the reader knows.
    """

    partition: int | None
    offset: int | None
    group: str | None
    topic_partition: str | None
    kind: str
    what: str
    remedy: str
    command: list[str] | None = None

    @classmethod
    def make(
        cls, partition: int | None, offset: int | None, kind: str, what: str, remedy: str = "", **about: Any
    ) -> Finding:
        """Return a finding. `about` has its `group`, `topic_partition` and `command`, if there are any.

        Without a `remedy`, it is that of the kind. If it ends with a colon, the command follows.
        """
        remedy = remedy or REMEDIES[kind]
        key = about.get("topic_partition")
        command = about.get("command")
        if remedy.endswith(":") and command is not None:
            remedy += f" {shlex.join(command)}"
        return cls(partition, offset, about.get("group"), key and str(key), kind, what, remedy, command)

    @property
    def advice(self) -> str:
        """The remedy without a command at its end, so that the command can have a line of its own."""
        return self.remedy if self.command is None else self.remedy.removesuffix(f" {shlex.join(self.command)}")

    @property
    def command_line(self) -> str:
        """The text of the command at the end of the remedy, if there is one, and otherwise ""."""
        return self.remedy[len(self.advice) + 1 :]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


LOAD_KINDS = (
    # Groups without a coordinator.
    *("does_not_start", "load_failure", "damage", "zeros", "load_memory"),
    # Offsets that a start loses, or answers wrongly or never.
    *("deleted_segments", "misplaced_groups", "endless_pending_commit", "shared_instance_id", "clock_jump"),
)
"""The kinds of findings that are about the next load, what costs most first."""
CHECKED_KINDS = (*LOAD_KINDS, "uncleaned", "look_alike_groups", "partition_count_changed")
"""The kinds that `check` reports, too: a log that is not cleaned takes longer to load each day."""
_BY_COST = (
    *LOAD_KINDS,
    *("refused", "partition_count_changed"),
    *("early_expiry", "expiry_in_use", "topic_created_again", "skipped_records"),
    # Groups that stand still, or read twice.
    *("hanging_transaction", "unrevoked_partition", "unassigned_partition", "two_writers", "rebalance_storm"),
    # What fills the disk most.
    "large_commits",
)
"""All other kinds come after these, and are equal."""


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by what the findings cost, and those of one kind by partition and offset, without a number first."""

    def sort_key(finding: Finding) -> tuple[int, int, int, str, str, str]:
        cost = _BY_COST.index(finding.kind) if finding.kind in _BY_COST else len(_BY_COST)
        partition = -1 if finding.partition is None else finding.partition
        offset = -1 if finding.offset is None else finding.offset
        return cost, partition, offset, finding.kind, finding.group or "", finding.topic_partition or ""

    return sorted(findings, key=sort_key)
