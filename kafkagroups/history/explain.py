"""The history of a group or of one of its offsets, and a broker's answer (`explain`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kafkagroups.errors import UsageError
from kafkagroups.groups.expire_times import Expiration, find_expirations, find_protected
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.fates import RecordFate
from kafkagroups.history.group_log import GroupLog, load_group_log
from kafkagroups.history.positions import Position, sort_rewound
from kafkagroups.history.record_details import LoadFailure, add_details, find_load_failures
from kafkagroups.loading.group_choice import choose_log
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.topic_partitions import TopicPartitions
from kafkagroups.log.damage import Damage, Gap
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.stop import NO_STOP
from kafkagroups.tables.group_json import group_json, offsets_json
from kafkagroups.tables.offset_fields import offset_json


@dataclass
class Explanation:
    """The history of a group, or of one of its offsets.

    The number of a partition is None if the name of the log's folder has no number.

    Attributes
    ----------
    group
        The group id.
    coordinator, kafka
        The coordinator ("classic" or "new") and the Kafka version whose rules were applied.
    history
        The records of the group or of the offset, in the order of the log.
    answer
        The group or offset that a broker returns after the load, as in `load --json`. For a topic without a partition:
        the offsets by topic-partition. None if the broker does not have the group or offset.
    waiting
        The commits whose transaction is open. If there are any, a client that requests stable offsets gets the error
        UNSTABLE_OFFSET_COMMIT.
    problems
        One line for each partition that is damaged or whose load fails. The partition need not contain records of the
        group.
    next_offsets
        For each partition that was read: the offset after the last batch that was read.
    expires_next
        The offsets that expire, in the order of their times: offsets with an expire timestamp, and with the broker's
        retention time also the others.
    error
        Why loads of partitions with records of the group fail. None if the load of each of these partitions succeeds.
    damage
        For each partition whose bytes are damaged: where reading ended.
    record_partitions
        The partitions that decide the answer: the partition from which the group is answered. If the group is not
        answered: all partitions with its records.
    failures
        For each partition with records of the group whose load fails: where, and why.
    protected
        The offsets with an expire timestamp that do not expire because the group has members.
    topic_partitions
        The partition count of the offsets topic, and how it was found.
    gaps
        For each partition that was read: the damaged bytes that the reader has skipped. Empty without
        `past_damage`.
    rewound
        The positions that went back: the highest and the current ones, and what the group reads twice.
    """

    group: str
    coordinator: str
    kafka: str = ""
    history: list[RecordFate] = field(default_factory=list)
    answer: Any = None
    waiting: list[RecordFate] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    next_offsets: dict[int | None, int] = field(default_factory=dict)
    error: str | None = None
    expires_next: list[Expiration] = field(default_factory=list)
    topic_partitions: TopicPartitions = field(default_factory=TopicPartitions)
    gaps: dict[int | None, list[Gap]] = field(default_factory=dict)
    damage: dict[int | None, Damage] = field(default_factory=dict)
    record_partitions: frozenset[int | None] = frozenset()
    failures: list[LoadFailure] = field(default_factory=list)
    protected: list[Expiration] = field(default_factory=list)
    rewound: list[Position] = field(default_factory=list)

    def find_damage(self) -> dict[int | None, Damage]:
        """Return the damage that the answer depends on, by partition: the log is cut there after an unclean start.

        This is the damage in the partition of the group, and damage before readable records of the group.
        """
        partitions = set(self.record_partitions)
        if self.topic_partitions.count:
            partitions.add(partition_for(self.group, self.topic_partitions.count))
        return {
            number: damage
            for number, damage in self.damage.items()
            if number in partitions or self.group in damage.groups_after
        }


class Question(NamedTuple):
    """What an explanation is about.

    `group` is the group id. `topic` and `partition` limit the history to one topic or to one topic-partition. Only
    records with the time `since_time` or a later one are in the history (ms since the epoch). `retention_ms` is the
    retention time of the broker in ms, which decides when offsets expire; None: not known.
    """

    group: str
    topic: str | None = None
    partition: int | None = None
    since_time: int | None = None
    retention_ms: int | None = None

    def check(self) -> None:
        """Raise UsageError if there is a partition without a topic, or a negative retention time."""
        if self.topic is None and self.partition is not None:
            raise UsageError("a partition identifies an offset only together with a topic")
        if self.retention_ms is not None and self.retention_ms < 0:
            raise UsageError(f"a retention time is at least 0, not {self.retention_ms} ms")

    def selects(self, key: TopicPartition) -> bool:
        """Return whether the history contains the records of this topic partition."""
        return self.topic in (None, key.topic) and self.partition in (None, key.partition)


def explain_group(topic: OpenTopic, question: Question) -> Explanation:
    """Load a topic and answer a question about a group.

    If reading ends at an offset, only the partition with the group's records is read.
    """

    def find_numbers() -> set[int | None]:
        _, group_log = load_group_log(replace(topic, stop=NO_STOP), question.group)
        return {entry.partition for entry in group_log}

    if topic.stop.until_offset is not None and len(topic.logs) > 1:
        chosen = choose_log(topic.logs, question.group, topic.partitions, find_numbers, path=topic.path)
        topic = topic.part(*chosen)
    return explain_log(*load_group_log(topic, question.group), question)


def explain_log(groups: Groups, group_log: GroupLog, question: Question) -> Explanation:
    """Return the answer to a question after a load. `groups` and `group_log` are the results of `load_group_log`."""
    entries = list(group_log)
    histories = add_details(group_log, entries, question.retention_ms)
    found = groups.get(question.group)
    answer: Any = None
    expirations: list[Expiration] = []
    protected: list[Expiration] = []
    if found is not None:
        answer = _find_answer(found, question)
        story = histories.get(found.partition)
        subscribes = None if story is None else story.group.state.subscribes
        expirations = find_expirations(found, group_log.dialect, question.retention_ms, subscribes)
        protected = find_protected(found, expirations)
    history = entries if question.topic is None else group_log.records_of(question.selects)
    waiting = [entry for entry in history if entry.fate is Fate.PENDING]
    return Explanation(
        question.group,
        groups.coordinator,
        groups.kafka,
        [entry for entry in history if question.since_time is None or entry.timestamp >= question.since_time],
        answer,
        waiting,
        groups.problems,
        {number: loaded.next_offset for number, loaded in groups.partitions.items()},
        _describe_failures(groups.failed, {entry.partition for entry in entries}),
        [expiration for expiration in expirations if question.selects(expiration.topic_partition)],
        groups.topic_partitions,
        {number: loaded.gaps for number, loaded in groups.partitions.items() if loaded.gaps is not None},
        {number: loaded.damage for number, loaded in groups.partitions.items() if loaded.damage is not None},
        frozenset(entry.partition for entry in entries) if found is None else frozenset((found.partition,)),
        list(find_load_failures(groups, entries)),
        [expiration for expiration in protected if question.selects(expiration.topic_partition)],
        sort_rewound(
            position
            for story in histories.values()
            for key, position in story.offsets.positions.items()
            if question.selects(key)
        ),
    )


def _find_answer(group: AnyGroup, question: Question) -> Any:
    """Return what a broker answers: the group, the offset, or the offsets of one topic. None: nothing."""
    if question.topic is None:
        return group_json(group)
    offsets = {key: offset for key, offset in group.offsets.items() if question.selects(key)}
    if question.partition is None:
        return offsets_json(offsets) or None
    return next(map(offset_json, offsets.values()), None)


def _describe_failures(failed: Mapping[int | None, str], partitions: set[int | None]) -> str | None:
    """Return why loads of these partitions fail, or None if the load of each of these partitions succeeds.

    `failed` contains the reason for each partition of the topic whose load fails. The number of a partition is None if
    the name of the log's folder has no number.
    """
    failures = [
        error if partition is None else f"partition {partition}: {error}"
        for partition, error in failed.items()
        if partition in partitions
    ]
    return "; ".join(failures) or None
