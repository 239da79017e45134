"""A rescue plan: the groups of a log, their committed offsets, and what was left out and why.

The plan is a file of JSON that people may edit (plan_file.py). `apply_rescue` commits its offsets to another cluster.

A planned offset is only useful if the records of its topic have kept their offsets. They keep them if the topic's files
were copied, or if a tool that keeps offsets copied the topic. MirrorMaker does not keep offsets.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.loading.topic_partitions import TopicPartitions

PLAN_VERSION = 1
"""The version of the plan's format, the field `kafkagroups_plan`."""


class Why(Enum):
    """Why a commit is not in the plan, or why the broker does not have a group.

    If there are several reasons for a topic partition, the first one counts.

    FILTERED: the topic does not match the patterns of topics.
    PENDING: the transaction of the commit is open. It was not known yet whether the commit would take effect.
    ABORTED: the transaction of the commit was aborted, and no later record of the topic partition took effect.
    HIDDEN: a tombstone deleted the group. The broker kept the offset in memory, but did not return it.
    SHARE_GROUP: a share group has no offsets in `__consumer_offsets`. Its progress is in `__share_group_state`.
    OTHER_PARTITION: the record is in a partition of `__consumer_offsets` that did not answer for the group.
    LOAD_FAILED: the load of the partition of `__consumer_offsets` fails, so that the broker did not use the record.
    IGNORED: the coordinator did not use the record for another reason.
    UNREADABLE: the coordinator cannot read the commit, so its offset is not known. The load of the partition fails.
    NO_GROUP: only of a group. It was deleted, or its records are of types that the coordinator skips.
    """

    FILTERED = "filtered"
    PENDING = "pending"
    ABORTED = "aborted"
    HIDDEN = "hidden"
    SHARE_GROUP = "share group"
    OTHER_PARTITION = "other partition"
    LOAD_FAILED = "load failed"
    IGNORED = "ignored"
    UNREADABLE = "unreadable"
    NO_GROUP = "no group"


@dataclass(frozen=True, slots=True)
class PlannedOffset:
    """A committed offset of the plan.

    Attributes
    ----------
    offset, metadata
        The committed offset and the metadata, which `apply_rescue` commits.
    leader_epoch
        The leader epoch of the commit; -1: none. It is never committed, because another cluster has other epochs.
    partition, record_offset
        The partition of `__consumer_offsets` with the commit record, and the offset of the record. The partition is
        None if the log's folder has no number.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1
    partition: int | None = None
    record_offset: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "offset": self.offset,
            "metadata": self.metadata,
            "leader_epoch": self.leader_epoch,
            "partition": self.partition,
            "record_offset": self.record_offset,
        }


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A commit that is not in the plan.

    Attributes
    ----------
    why
        The reason.
    offset
        The offset of the commit. None for a share group, because its offsets are in another topic, and for a commit
        that cannot be read.
    partition, record_offset
        The partition of `__consumer_offsets` with the record, and the offset of the record.
    """

    why: Why
    offset: int | None
    partition: int | None = None
    record_offset: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "why": self.why.value,
            "offset": self.offset,
            "partition": self.partition,
            "record_offset": self.record_offset,
        }


@dataclass(slots=True)
class GroupPlan:
    """The plan of one group.

    Attributes
    ----------
    to
        The id of the group in the other cluster.
    type, state
        The type and the state of the group after the load, as in `load --json`. Both are None if the broker did not
        have the group, for example because it was deleted.
    why
        Why the broker did not have the group. None if it had the group.
    offsets
        The committed offsets: exactly those that `load` returns, except those of other topics.
    left_out
        The commits that are not in the plan. A topic partition can be both in `offsets` and here, for example if a
        newer commit was pending.
    """

    to: str
    type: str | None = None
    state: str | None = None
    why: Why | None = None
    offsets: dict[TopicPartition, PlannedOffset] = field(default_factory=dict)
    left_out: dict[TopicPartition, LeftOut] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "to": self.to,
            "type": self.type,
            "state": self.state,
            "why": None if self.why is None else self.why.value,
            "offsets": {str(key): offset.to_json() for key, offset in sorted(self.offsets.items())},
            "left_out": {str(key): entry.to_json() for key, entry in sorted(self.left_out.items())},
        }


@dataclass(slots=True)
class RescuePlan:
    """A plan to restore groups and their offsets in another cluster.

    Attributes
    ----------
    coordinator, kafka
        The coordinator and the Kafka version whose rules were used to load the log.
    made_from
        Where the plan comes from: the path, the patterns, and the problems of the log. `apply_rescue` ignores it.
    groups
        The plan of each group that a record of the log names, by the group's id in the log.
    topic_partitions
        The partition count of `__consumer_offsets` in the log, and how it was found. None if the plan was read from a
        file.
    """

    coordinator: str
    kafka: str
    made_from: Any = None
    groups: dict[str, GroupPlan] = field(default_factory=dict)
    topic_partitions: TopicPartitions | None = field(default=None, repr=False, compare=False)

    @property
    def problems(self) -> list[str]:
        """A line for each partition of the log that is damaged, and for each whose load fails."""
        return self._read_origin("problems")

    @property
    def other_groups(self) -> list[str]:
        """The groups of the log that are not in the plan, because they do not match the patterns of groups."""
        return self._read_origin("other_groups")

    def _read_origin(self, name: str) -> list[str]:
        """Return a list in `made_from`. A file may contain anything there."""
        lines = self.made_from.get(name) if isinstance(self.made_from, dict) else None
        return [str(line) for line in lines] if isinstance(lines, list) else []

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON, as it is written to a file."""
        return {
            "kafkagroups_plan": PLAN_VERSION,
            "coordinator": self.coordinator,
            "kafka": self.kafka,
            "made_from": self.made_from,
            "groups": {group_id: self.groups[group_id].to_json() for group_id in sorted(self.groups)},
        }
