"""The history of a group or of one of its offsets, and a broker's answer (`explain`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.group_fates import load_into
from kafkagroups.history.group_log import GroupLog
from kafkagroups.history.record_details import add_details
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.loading.groups import Groups
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.dialects import Dialect
from kafkagroups.tables.group_json import group_json
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
        The group or offset that a broker returns after the load, as in `load --json`. None if the broker does not have
        the group or offset.
    waiting
        The commits whose transaction is open. If there are any, a client that requests stable offsets gets the error
        UNSTABLE_OFFSET_COMMIT.
    problems
        One line for each partition that is damaged or whose load fails. The partition need not contain records of the
        group.
    next_offsets
        For each partition that was read: the offset after the last batch that was read.
    error
        Why loads of partitions with records of the group fail. None if the load of each of these partitions succeeds.
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


def build_topic_partition(topic: str | None, partition: int | None) -> TopicPartition | None:
    """Return the topic partition; None if both parameters are None. Raises UsageError if only one of them is None."""
    if topic is None and partition is None:
        return None
    if topic is None or partition is None:
        raise UsageError("a topic and a partition identify an offset only together: give both or none")
    return TopicPartition(topic, partition)


def explain_group(
    logs: Iterable[Log],
    dialect: Dialect,
    group: str,
    topic_partition: TopicPartition | None = None,
    *,
    engine: str = "auto",
    path: str = "",
    partitions: int | None = None,
    stop: Stop = NO_STOP,
) -> Explanation:
    """Load logs and return the history of a group, or of the group's offset for one topic partition.

    `engine` is a name that `choose_engine` accepts. `path` is only used in messages. `partitions` is the partition
    count of the offsets topic, as in `kafkagroups.load`. `stop` says where reading ends (log/stop.py).
    """
    groups, group_log = load_group_log(logs, dialect, group, engine=engine, path=path, partitions=partitions, stop=stop)
    return explain_log(groups, group_log, topic_partition)


def load_group_log(
    logs: Iterable[Log],
    dialect: Dialect,
    group: str,
    *,
    engine: str = "auto",
    path: str = "",
    partitions: int | None = None,
    stop: Stop = NO_STOP,
) -> tuple[Groups, GroupLog]:
    """Load logs. Return the result of the load, and the log of the group. The parameters are those of `explain_group`.

    The fates of the group's records are settled, and their details (record_details.py) are set.
    """
    group_log = GroupLog(dialect, group)
    groups = load_into(group_log, logs, engine=engine, path=path, partitions=partitions, stop=stop)
    add_details(group_log)
    return groups, group_log


def explain_log(groups: Groups, fates: GroupLog, topic_partition: TopicPartition | None = None) -> Explanation:
    """Return the history of a group, or of the group's offset for one topic partition, after a load.

    `groups` and `fates` are the results of `load_group_log`.
    """
    group = fates.wanted_group
    assert group is not None
    found_group = groups.get(group)
    answer: Any = None
    if topic_partition is None:
        history = list(fates)
        if found_group is not None:
            answer = group_json(found_group)
    else:
        history = fates.records_of(topic_partition)
        if found_group is not None and topic_partition in found_group.offsets:
            answer = offset_json(found_group.offsets[topic_partition])
    waiting = [entry for entry in history if entry.fate is Fate.PENDING]
    next_offsets = {number: loaded.next_offset for number, loaded in groups.partitions.items()}
    error = _describe_failures(groups.failed, {entry.partition for entry in fates})
    return Explanation(
        group, groups.coordinator, groups.kafka, history, answer, waiting, groups.problems, next_offsets, error
    )


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
