"""The positions of groups that have moved to another partition, because the partition count of the topic was changed.

The old and the new home partition of such a group both contain offset records. Each of the two partitions is loaded
alone. So both positions are known, although a broker answers only one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kafkagroups.groups.offsets import OffsetAndMetadata, ReadOnlyOffsets, TopicPartition
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.loading.topic_partitions import PartitionCountChange
from kafkagroups.log.partitioning import partition_for


@dataclass(frozen=True)
class MovedOffset:
    """The offsets of a group for one topic partition: in the group's old home partition, and in the new one.

    An offset is None if its partition has no committed offset for the topic partition, or if it does not load.
    """

    group: str
    topic_partition: TopicPartition
    old: OffsetAndMetadata | None
    new: OffsetAndMetadata | None

    @property
    def is_newest_old(self) -> bool:
        """Whether the newest commit is in the old home partition. If both have the same time, it is not."""
        if self.old is None or self.new is None:
            return self.new is None
        return self.old.commit_timestamp > self.new.commit_timestamp

    def to_json(self) -> dict[str, Any]:
        """Return the positions as `stats --json` prints them."""
        return {
            "group": self.group,
            "topic_partition": str(self.topic_partition),
            "old": None if self.old is None else self.old.offset,
            "new": None if self.new is None else self.new.offset,
            "newest": "old" if self.is_newest_old else "new",
        }


def sort_moved(moved: Iterable[MovedOffset]) -> list[MovedOffset]:
    """Return the positions for a table: those that a broker can lose stand first."""
    return sorted(moved, key=lambda offset: not offset.is_newest_old)


def find_moved_offsets(topic: OpenTopic, change: PartitionCountChange) -> list[MovedOffset]:
    """Return the offsets of the groups in `change`, sorted by group and topic partition."""
    homes = {
        group: (partition_for(group, change.from_count), partition_for(group, change.to_count))
        for group in change.groups
    }
    wanted = {number for pair in homes.values() for number in pair}
    alone = replace(topic, partitions=None)
    loads = {log.partition: alone.part(log).load() for log in topic.logs if log.partition in wanted}
    moved = []
    for group, (old_home, new_home) in sorted(homes.items()):
        old = _read_offsets(loads.get(old_home), group)
        new = _read_offsets(loads.get(new_home), group)
        moved += [MovedOffset(group, key, old.get(key), new.get(key)) for key in sorted({*old, *new})]
    return moved


def _read_offsets(groups: Groups | None, group: str) -> ReadOnlyOffsets:
    """Return the committed offsets of a group in a load; nothing if the load does not have the group."""
    return {} if groups is None or group not in groups else groups[group].offsets
