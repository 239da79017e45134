"""`Groups`, the result of a load: the groups of a coordinator, each built when it is first used."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkagroups.groups.group_parts import GroupParts, OrphanParts
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.offsets import Orphan
from kafkagroups.groups.shard import LoadedPartition
from kafkagroups.loading.caches import Cache
from kafkagroups.loading.lazy_mapping import LazyMapping
from kafkagroups.loading.topic_partitions import FoundPartitions, TopicPartitions
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.dialects import dialect

if TYPE_CHECKING:
    import pandas as pd

KnownGroups = LazyMapping[GroupParts, AnyGroup]
Orphans = LazyMapping[OrphanParts, Orphan]


@dataclass
class Groups(Mapping[str, AnyGroup]):
    """The groups that a coordinator has after loading a log, by group id.

    A group is built when you first use it. After that, you always get the same object. If you change a group, other
    loads of the same log do not contain the change.

    Attributes
    ----------
    coordinator, kafka
        The coordinator that loaded the log ("classic" or "new"), and its Kafka version.
    path
        The path that was loaded.
    partitions
        By partition number: how much was read of the partition, and how its load ended. The number is None if the name
        of the log's folder has no number.
    groups
        The same groups as in this mapping. A classic group is a `Group`. A consumer, share or streams group is a
        `ModernGroup`.
    orphans
        By group id: offsets that the coordinator keeps although the group does not exist.
    elsewhere
        By group id: the partitions that contain records of the group but do not answer requests for the group. These
        records have no effect.
    partitions_of
        By group id: all partitions that contain records of the group, also of groups that no longer exist.
    topic
        The partitions at the path, and the partition count that the caller gave.
    decided_partitions
        The value of `topic_partitions`; None if it was not needed yet.

    Examples
    --------
    >>> from kafkagroups import TopicPartition, load
    >>> groups = load("data/harbour/3.9.2", coordinator="classic")
    >>> groups["billing"].offsets[TopicPartition("orders", 0)].offset
    50
    """

    coordinator: str
    kafka: str
    path: str
    partitions: dict[int | None, LoadedPartition] = field(default_factory=dict)
    groups: KnownGroups = field(default_factory=lambda: KnownGroups({}, GroupParts.build))
    orphans: Orphans = field(default_factory=lambda: Orphans({}, OrphanParts.build))
    elsewhere: dict[str, list[int | None]] = field(default_factory=dict)
    partitions_of: dict[str, list[int | None]] = field(default_factory=dict)
    topic: FoundPartitions = field(default_factory=FoundPartitions, repr=False)
    decided_partitions: TopicPartitions | None = field(default=None, repr=False, compare=False)

    @property
    def topic_partitions(self) -> TopicPartitions:
        """The partition count of `__consumer_offsets`, how it was found, and whether it was changed."""
        if self.decided_partitions is None:
            self.decided_partitions = self.topic.decide(self.partitions_of)
        return self.decided_partitions

    @property
    def kafka_rules(self) -> str | None:
        """The version whose rules this load used; None if loads of version `kafka` were compared with a broker's loads.

        - Another version than `kafka`: the nearest compared version, which has the same rules as `kafka`.
        - The same version as `kafka`: no compared version has the same rules. The rules come only from Kafka's source.
        """
        return dialect(self.coordinator, self.kafka).rules_of

    @property
    def failed(self) -> dict[int | None, str]:
        """By partition number: the reason why a broker's load would fail. Partitions that load well are left out."""
        return {partition: loaded.error for partition, loaded in self.partitions.items() if loaded.error}

    @property
    def problems(self) -> list[str]:
        """A line for each partition that is damaged, with which a broker does not start, or whose load would fail."""
        return [line for lines in self.problems_by_partition.values() for line in lines]

    @property
    def problems_by_partition(self) -> dict[int | None, list[str]]:
        """By partition number: the lines of `problems` about this partition. Most partitions have an empty list."""
        lines_by_partition = {}
        answering_partitions = {parts.group.partition for _, parts in self.parts()} if self.failed else set()
        for partition, loaded in self.partitions.items():
            lines = loaded.describe_damage()
            if loaded.start is not None:
                lines.append(str(loaded.start))
            if loaded.error:
                answers_for_groups = partition in answering_partitions
                lines.append(describe_failure(self.path, partition, self.kafka, loaded.error, answers_for_groups))
            lines_by_partition[partition] = lines
        return lines_by_partition

    def __getitem__(self, group_id: str) -> AnyGroup:
        return self.groups[group_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __contains__(self, group_id: object) -> bool:
        return group_id in self.groups

    def select(self, group_ids: Collection[str]) -> Groups:
        """Return the same load with only these groups, for output. Ids that the load does not have are ignored."""
        return replace(
            self,
            groups=self.groups.select(group_ids),
            orphans=self.orphans.select(group_ids),
            elsewhere={name: self.elsewhere[name] for name in group_ids if name in self.elsewhere},
        )

    def offsets_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each committed offset.

        Returns
        -------
        pandas.DataFrame
            Columns: group, topic, partition, offset, leader_epoch, metadata, commit_timestamp, expire_timestamp,
            topic_id, record_offset. Times are in ms since the epoch.
        """
        from kafkagroups.tables.frames import offsets_frame

        return offsets_frame(self.groups.values())

    def members_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each member of each group.

        Returns
        -------
        pandas.DataFrame
            Topics and partitions are lists, or None if the member's bytes cannot be read. `generation` is set for
            members of classic groups, `member_epoch` for members of consumer, share and streams groups.
        """
        from kafkagroups.tables.frames import members_frame

        return members_frame(self.groups.values())

    def parts(self) -> Iterator[tuple[str, GroupParts]]:
        """Yield the id and the parts of each group, in the order of the ids, without building further groups.

        The parts are a group without offsets (or its record), the committed offsets, and the pending commits
        (groups/group_parts.py). If a group was already built, all three parts come from the built group.
        """
        unbuilt = self.groups.unbuilt()
        for group_id in sorted(self):
            if group_id in unbuilt:
                yield group_id, unbuilt[group_id]
            else:
                group = self[group_id]
                yield group_id, GroupParts(group, group.offsets, group.pending)


def describe_failure(path: str, partition: int | None, kafka: str, error: str, answers_for_groups: bool = False) -> str:
    """Return a message that says why the load of a partition fails.

    `error` is the reason. `answers_for_groups` is true if the load fails at its last step, after the groups were added
    to the cache. The broker then answers requests for these groups. Only the classic coordinator can fail at this step.
    """
    message = f"{path}, partition {partition}: Kafka {kafka} fails to load it: {error}"
    if answers_for_groups:
        return f"{message}. The load fails at its last step: this broker answers for the groups that it had loaded"
    return message


def collect_groups(
    cache: Cache,
    loaded: dict[int | None, LoadedPartition],
    path: str = "",
    topic: FoundPartitions | None = None,
    topic_partitions: TopicPartitions | None = None,
) -> Groups:
    """Return the groups in a coordinator's cache.

    `loaded` says for each partition how much was read, and how its load ended. `path` is only used in messages.
    `topic` is None if the partitions of the topic are not known. `topic_partitions` is None if no group has records in
    several partitions.
    """
    topic = topic or FoundPartitions()
    orphans = {group_id: orphan for group_id, orphan in cache.orphans.items() if group_id not in cache.groups}
    answering_partition_of = {group_id: parts.group.partition for group_id, parts in cache.groups.items()}
    partition_count = topic.option if topic_partitions is None else topic_partitions.count
    return Groups(
        cache.dialect.coordinator,
        cache.dialect.kafka,
        path,
        loaded,
        KnownGroups(cache.groups, GroupParts.build),
        Orphans(orphans, OrphanParts.build),
        _find_elsewhere(cache.partitions_of, answering_partition_of, partition_count),
        cache.partitions_of,
        topic,
        topic_partitions,
    )


def join_groups(
    loads: Sequence[Groups], path: str, topic: FoundPartitions, topic_partitions: TopicPartitions | None
) -> Groups:
    """Return the loads of different partitions of one topic as one result.

    The caller must make sure that no two loads contain a group with the same id. `topic_partitions` is None if no group
    has records in several partitions.
    """
    whole = Groups(loads[0].coordinator, loads[0].kafka, path, topic=topic, decided_partitions=topic_partitions)
    for load in sorted(loads, key=lambda load: min(number or 0 for number in load.partitions)):
        whole.partitions |= load.partitions
        whole.groups.add(load.groups)
        whole.orphans.add(load.orphans)
        for group_id, partition_numbers in load.partitions_of.items():
            whole.partitions_of.setdefault(group_id, []).extend(partition_numbers)
    whole.partitions = dict(sorted(whole.partitions.items(), key=lambda entry: entry[0] or 0))
    answering_partition_of = {group_id: parts.group.partition for group_id, parts in whole.parts()}
    partition_count = topic.option if topic_partitions is None else topic_partitions.count
    whole.elsewhere = _find_elsewhere(whole.partitions_of, answering_partition_of, partition_count)
    return whole


def _find_elsewhere(
    partitions_of: dict[str, list[int | None]],
    answering_partition_of: Mapping[str, int | None],
    partition_count: int | None,
) -> dict[str, list[int | None]]:
    """Return by group id the partitions that contain records of a group but do not answer requests for the group.

    A group without other partitions is left out. `partitions_of` maps a group id to all partitions that contain records
    of the group. `answering_partition_of` maps the id of each existing group to the partition that answers.
    `partition_count` is None if the topic's partition count is not known.
    """
    elsewhere = {}
    for group_id, partition_numbers in partitions_of.items():
        if len(partition_numbers) == 1 and not partition_count:
            continue
        # If the group does not exist and the count is not known, assume that the first partition answers.
        answering_partition = partition_numbers[0]
        if group_id in answering_partition_of:
            answering_partition = answering_partition_of[group_id]
        elif partition_count and partition_numbers[0] is not None:
            answering_partition = partition_for(group_id, partition_count)
        other_partitions = [partition for partition in partition_numbers if partition != answering_partition]
        if other_partitions:
            elsewhere[group_id] = other_partitions
    return elsewhere
