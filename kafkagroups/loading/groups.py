"""`Groups`, the result of a load: the groups of a coordinator, each built when it is first used, also as JSON (what
`load --json` prints) and as pandas frames.

pandas is imported only when a frame is asked for.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kafkagroups.groups import modern_group
from kafkagroups.groups.group import ClassicState, Group, Member, UndecodedGroup
from kafkagroups.groups.modern_group import AnyGroup, ModernGroup, ModernMember
from kafkagroups.groups.offsets import (
    Fate,
    OffsetAndMetadata,
    Orphan,
    PartitionOffsets,
    ReadOnlyOffsets,
    TopicPartition,
)
from kafkagroups.groups.replay import LoadedPartition
from kafkagroups.loading.partition_count import FoundPartitions, TopicPartitions
from kafkagroups.log.segment_file import partition_for
from kafkagroups.records.consumer_protocol import TopicAndPartitions
from kafkagroups.records.releases import dialect, rules_to_json
from kafkagroups.records.structs import to_json

_MEMBER_FIELDS = "member_id group_instance_id client_id client_host rebalance_timeout_ms session_timeout_ms"
_OFFSET_FIELDS = "offset leader_epoch metadata commit_timestamp expire_timestamp topic_id record_offset"


def _read_fields(source: object, names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names.split()}


def group_json(group: AnyGroup) -> dict[str, Any]:
    return description_json(group) | {"offsets": offsets_json(group.offsets), "pending": pending_json(group.pending)}


def orphan_json(orphan: Orphan) -> dict[str, Any]:
    return {"offsets": offsets_json(orphan.offsets), "pending": pending_json(orphan.pending)}


def description_json(group: AnyGroup) -> dict[str, Any]:
    description = {"partition": group.partition, "type": group.type, "state": group.state.value}
    return description | (_classic_json(group) if isinstance(group, Group) else _modern_json(group))


def _classic_json(group: Group) -> dict[str, Any]:
    return {
        "protocol_type": group.protocol_type,
        "protocol": group.protocol if group.state is ClassicState.STABLE else "",
        "generation": group.generation,
        "leader": group.leader,
        "members": [_member_json(group.members[member_id]) for member_id in sorted(group.members)],
    }


def _modern_json(group: ModernGroup) -> dict[str, Any]:
    description: dict[str, Any] = {
        "protocol_type": group.type,
        "protocol": group.assignor,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor": group.assignor,
        "members": [modern_member_json(group, group.members[member_id]) for member_id in sorted(group.members)],
    }
    if group.type == "streams":
        description["topology"] = _topology(group)
    return description


def modern_member_json(group: ModernGroup, member: ModernMember) -> dict[str, Any]:
    """The records of such a member have topic ids instead of topic names."""
    metadata = member.metadata
    target = group.targets.get(member.member_id)

    def read_metadata(name: str, default: Any = None) -> Any:
        return getattr(metadata, name, default)

    member_fields = {
        "member_id": member.member_id,
        "group_instance_id": read_metadata("instance_id"),
        "rack_id": read_metadata("rack_id"),
        "client_id": read_metadata("client_id", ""),
        "client_host": read_metadata("client_host", ""),
        "rebalance_timeout_ms": read_metadata("rebalance_timeout_ms"),
        "member_epoch": member.member_epoch,
        "member_type": 0 if member.uses_classic_protocol else 1,
    }
    if group.type in modern_group.MEMBER_STATES:
        member_fields["state"] = group.name_state(member)
        member_fields["previous_member_epoch"] = group.find_previous_epoch(member)
    if group.type == "streams":
        return member_fields | {
            "topology_epoch": read_metadata("topology_epoch"),
            "process_id": read_metadata("process_id"),
            "assignment": _tasks_by_role(member.assignment),
            "pending_revocation": _tasks_by_role(member.assignment, "_pending_revocation"),
            "target_assignment": _tasks_by_role(target),
        }
    # Without metadata, a member of a consumer group has the regex "" instead of null.
    default_regex = "" if group.type == "consumer" and not metadata else None
    if group.type == "consumer":
        revoking = getattr(member.assignment, "partitions_pending_revocation", ())
        member_fields["pending_revocation"] = modern_group.partitions_by_topic(revoking)
    return member_fields | {
        "subscribed_topic_names": list(dict.fromkeys(read_metadata("subscribed_topic_names", ()))),
        "subscribed_topic_regex": read_metadata("subscribed_topic_regex", default_regex),
        "assignment": assigned_partitions(group, member),
        "target_assignment": modern_group.partitions_by_topic(getattr(target, "topic_partitions", ())),
    }


def assigned_partitions(group: ModernGroup, member: ModernMember) -> dict[str, list[int]]:
    """In a consumer group of Kafka 4.3 or newer, the partitions include those that the member has not revoked yet, as
    in a broker's answers.
    """
    assigned = modern_group.partitions_by_topic(getattr(member.assignment, "assigned_partitions", ()))
    if group.type == "consumer" and group.kafka >= (4, 3):
        revoking = modern_group.partitions_by_topic(getattr(member.assignment, "partitions_pending_revocation", ()))
        for topic_id, partitions in revoking.items():
            assigned[topic_id] = sorted({*assigned.get(topic_id, ()), *partitions})
    return assigned


def member_rows(group: AnyGroup) -> Iterator[dict[str, Any]]:
    """Yield the JSON of each member, with `group`, `generation`, `subscribed_topics` and `assigned_partitions`.

    A classic group has partitions as `topic-partition`, and a list is None if its bytes cannot be read. A streams group
    has no topics, and its active tasks as `subtopology_task`. Others have partitions as `topic id-partition`.
    """
    description = description_json(group)
    for member in description["members"]:
        assignment = member["assignment"] or {}
        if isinstance(group, Group):
            topics = (member["subscription"] or {}).get("topics")
            assigned = assignment.get("partitions")
        else:
            topics = member.get("subscribed_topic_names")
            separator, numbers_of = ("_", assignment["active"]) if group.type == "streams" else ("-", assignment)
            assigned = [f"{name}{separator}{number}" for name, numbers in numbers_of.items() for number in numbers]
        yield member | {
            "group": group.group_id,
            "generation": description.get("generation"),
            "subscribed_topics": topics,
            "assigned_partitions": assigned,
        }


def _tasks_by_role(assignment: Any, suffix: str = "") -> dict[str, dict[str, list[int]]]:
    roles = ("active", "standby", "warmup")
    return {role: modern_group.tasks_by_subtopology(getattr(assignment, f"{role}_tasks{suffix}", ())) for role in roles}


def _topology(group: ModernGroup) -> dict[str, Any] | None:
    if group.topology is None:
        return None
    topology = to_json(group.topology, 0)
    return {
        "epoch": topology["epoch"],
        "subtopologies": sorted(topology["subtopologies"], key=lambda subtopology: str(subtopology["subtopologyId"])),
    }


def _member_json(member: Member) -> dict[str, Any]:
    """A subscription or assignment that cannot be read is null."""
    return _read_fields(member, _MEMBER_FIELDS) | {
        "subscription": _subscription(member),
        "assignment": _assignment(member),
        "subscription_hex": member.subscription_bytes.hex(),
        "assignment_hex": member.assignment_bytes.hex(),
    }


def _subscription(member: Member) -> dict[str, Any] | None:
    subscription = member.subscription
    if subscription is None:
        return None
    message = subscription.message
    return {
        "version": subscription.version,
        "topics": list(message.topics),
        "user_data": _base64(message.user_data),
        "owned_partitions": _partition_texts(message.owned_partitions),
        # Kafka's ConsumerProtocol treats a negative generation and an empty rack as missing.
        "generation_id": message.generation_id if message.generation_id >= 0 else None,
        "rack_id": message.rack_id or None,
    }


def _assignment(member: Member) -> dict[str, Any] | None:
    assignment = member.assignment
    if assignment is None:
        return None
    message = assignment.message
    return {
        "version": assignment.version,
        "partitions": _partition_texts(message.assigned_partitions),
        "user_data": _base64(message.user_data),
    }


def offset_json(offset: OffsetAndMetadata) -> dict[str, Any]:
    return _read_fields(offset, _OFFSET_FIELDS)


def offsets_json(offsets: ReadOnlyOffsets) -> dict[str, Any]:
    return {str(partition): offset_json(offsets[partition]) for partition in sorted(offsets)}


def sorted_pending(pending: dict[int, PartitionOffsets]) -> list[tuple[TopicPartition, int, OffsetAndMetadata]]:
    commits = [
        (partition, producer_id, offset)
        for producer_id, offsets in pending.items()
        for partition, offset in offsets.items()
    ]
    return sorted(commits, key=lambda commit: commit[:2])


def pending_json(pending: dict[int, PartitionOffsets]) -> dict[str, Any]:
    """Return the commits of open transactions by topic-partition, for which several producers can have one."""
    commits_by_partition: dict[str, list[dict[str, Any]]] = {}
    for partition, producer_id, offset in sorted_pending(pending):
        commit = {"producer_id": producer_id} | _read_fields(offset, "offset metadata record_offset")
        commits_by_partition.setdefault(str(partition), []).append(commit)
    return commits_by_partition


def _partition_texts(topics: tuple[TopicAndPartitions, ...]) -> list[str]:
    pairs = sorted((topic.topic, partition) for topic in topics for partition in topic.partitions)
    return [f"{topic}-{partition}" for topic, partition in pairs]


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


if TYPE_CHECKING:
    import pandas as pd


class GroupParts(NamedTuple):
    """What a group is built from: the group without its offsets, or its record, which is not decoded yet, and its
    offsets.
    """

    group: AnyGroup | UndecodedGroup
    offsets: ReadOnlyOffsets
    pending: dict[int, PartitionOffsets]

    def decode_group(self) -> AnyGroup:
        return self.group.decode() if isinstance(self.group, UndecodedGroup) else self.group

    def build(self) -> AnyGroup:
        group = self.group.decode() if isinstance(self.group, UndecodedGroup) else modern_group.copy_group(self.group)
        group.offsets = _copy_offsets(self.offsets)
        group.pending = _copy_pending(self.pending)
        return group


def build_orphan(parts: Orphan) -> Orphan:
    return replace(parts, offsets=_copy_offsets(parts.offsets), pending=_copy_pending(parts.pending))


def _copy_offsets(offsets: ReadOnlyOffsets) -> PartitionOffsets:
    """Copy offsets in the order of the log, because the engines store them in different orders."""
    return dict(sorted(offsets.items(), key=lambda entry: (entry[1].record_offset, entry[0])))


def _copy_pending(pending: dict[int, PartitionOffsets]) -> dict[int, PartitionOffsets]:
    return {producer_id: _copy_offsets(pending[producer_id]) for producer_id in sorted(pending)}


class Answer(NamedTuple):
    """`has_read` says whether the coordinator has used them."""

    committed: Fate
    pending: Fate
    records: Fate
    has_read: bool


_NOT_USED = Answer(Fate.IGNORED, Fate.IGNORED, Fate.IGNORED, has_read=False)
_KNOWN = Answer(Fate.WINS, Fate.PENDING, Fate.WINS, has_read=True)
_WITHOUT_OFFSETS = Answer(Fate.IGNORED, Fate.PENDING, Fate.WINS, has_read=True)
_ORPHAN = Answer(Fate.HIDDEN, Fate.PENDING, Fate.IGNORED, has_read=True)
_ANSWERED_ORPHAN = Answer(Fate.WINS, Fate.PENDING, Fate.IGNORED, has_read=True)
_OTHER_ORPHAN = Answer(Fate.IGNORED, Fate.IGNORED, Fate.IGNORED, has_read=True)


class Answers(NamedTuple):
    groups: Mapping[str, GroupParts]
    orphans: Mapping[str, Orphan]

    def find(self, group_id: str, partition: int | None) -> Answer:
        known = self.groups.get(group_id)
        if known is not None:
            if known.group.partition != partition:
                return _NOT_USED
            # A broker returns no offsets of a share group, even if offsets were committed for its id.
            return _KNOWN if known.offsets else _WITHOUT_OFFSETS
        orphan = self.orphans.get(group_id)
        if orphan is None:
            return _NOT_USED
        if orphan.partition != partition:
            return _OTHER_ORPHAN
        return _ANSWERED_ORPHAN if orphan.is_answered else _ORPHAN


Parts = TypeVar("Parts")
Value = TypeVar("Value")


class LazyMapping(Mapping[str, Value], Generic[Parts, Value]):
    """A mapping whose values are made by `build` when they are first used, because most callers use only a few groups
    of a large log.
    """

    def __init__(self, parts: Mapping[str, Parts], build: Callable[[Parts], Value]) -> None:
        self._parts = dict(parts)
        self._build = build
        self._built: dict[str, Value] = {}

    def __getitem__(self, name: str) -> Value:
        if name not in self._built:
            self._built[name] = self._build(self._parts[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __repr__(self) -> str:
        return repr(dict(self))

    def select(self, names: Collection[str]) -> LazyMapping[Parts, Value]:
        selected = LazyMapping({name: self._parts[name] for name in names if name in self._parts}, self._build)
        selected._built = {name: self._built[name] for name in names if name in self._built}
        return selected

    def unbuilt(self) -> dict[str, Parts]:
        return {name: parts for name, parts in self._parts.items() if name not in self._built}


KnownGroups = LazyMapping[GroupParts, AnyGroup]
Orphans = LazyMapping[Orphan, Orphan]


@dataclass
class Groups(Mapping[str, AnyGroup]):
    """The groups that a coordinator has after loading a log, by group id.

    A group is built when you first use it, and is then always the same object.

    `groups` are the same groups as in this mapping: a classic group is a `Group`; a consumer, share or streams group is
    a `ModernGroup`. `partitions` says, by partition number (None if the name of the log's folder has none), how much
    was read, and how the load ended. `orphans` are, by group id, offsets that the coordinator keeps although the group
    does not exist, and `partitions_of` all partitions with records of the group, also of groups that no longer exist.

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
    partitions: dict[int | None, LoadedPartition] = field(default_factory=dict, repr=False)
    groups: KnownGroups = field(default_factory=lambda: KnownGroups({}, GroupParts.build), repr=False)
    orphans: Orphans = field(default_factory=lambda: Orphans({}, build_orphan), repr=False)
    partitions_of: dict[str, list[int | None]] = field(default_factory=dict, repr=False)
    topic: FoundPartitions = field(default_factory=FoundPartitions, repr=False)
    decided_partitions: TopicPartitions | None = field(default=None, repr=False, compare=False)

    @property
    def topic_partitions(self) -> TopicPartitions:
        if self.decided_partitions is None:
            self.decided_partitions = self.topic.decide(self.partitions_of)
        return self.decided_partitions

    @cached_property
    def elsewhere(self) -> dict[str, list[int | None]]:
        """By group id: the partitions with records of the group that do not answer for it, so that these have no
        effect.
        """
        count = self.topic.option if self.decided_partitions is None else self.decided_partitions.count
        answering = {group_id: parts.group.partition for group_id, parts in self.parts()}
        elsewhere = {}
        for group_id, numbers in self.partitions_of.items():
            # If the group does not exist and the count is not known, assume that the first partition answers.
            home = partition_for(group_id, count) if count and numbers[0] is not None else numbers[0]
            others = [number for number in numbers if number != answering.get(group_id, home)]
            if others:
                elsewhere[group_id] = others
        return elsewhere

    @property
    def kafka_rules(self) -> str | None:
        """The version whose rules this load used; None if loads of version `kafka` were compared with a broker's loads.

        - Another version than `kafka`: the nearest compared version, which has the same rules as `kafka`.
        - The same version as `kafka`: no compared version has the same rules. The rules come only from Kafka's source.
        """
        return dialect(self.coordinator, self.kafka).rules_of

    def to_json(self) -> dict[str, Any]:
        """Return what `load --json` prints."""
        return {
            "path": self.path,
            "coordinator": self.coordinator,
            "kafka": self.kafka,
            **rules_to_json(self.kafka_rules),
            "partitions": {number: _partition_json(loaded) for number, loaded in self.partitions.items()},
            "groups": {group_id: group_json(self[group_id]) for group_id in sorted(self)},
            "orphans": {group_id: orphan_json(orphan) for group_id, orphan in sorted(self.orphans.items())},
            "elsewhere": dict(sorted(self.elsewhere.items())),
            "topic_partitions": self.topic_partitions.to_json(),
        }

    @property
    def failed(self) -> dict[int | None, str]:
        """By partition number: the reason why a broker's load would fail."""
        return {partition: loaded.error for partition, loaded in self.partitions.items() if loaded.error}

    @property
    def problems(self) -> list[str]:
        """A line for each partition that is damaged, with which a broker does not start, or whose load would fail."""
        return [line for lines in self.problems_by_partition.values() for line in lines]

    @property
    def problems_by_partition(self) -> dict[int | None, list[str]]:
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

    def answers_offsets(self, group_id: str) -> bool:
        orphan = self.orphans.get(group_id)
        return group_id in self.groups or (orphan is not None and orphan.is_answered)

    def find_holder(self, group_id: str) -> AnyGroup | Orphan | None:
        """Return the group, or an orphan that is answered, from which a broker answers the offsets of a group."""
        return (self.get(group_id) or self.orphans[group_id]) if self.answers_offsets(group_id) else None

    def select(self, group_ids: Collection[str]) -> Groups:
        return replace(
            self,
            groups=self.groups.select(group_ids),
            orphans=self.orphans.select(group_ids),
            partitions_of={name: self.partitions_of[name] for name in group_ids if name in self.partitions_of},
            decided_partitions=self.topic_partitions,
        )

    def offsets_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each committed offset; times are in ms since the epoch."""
        import pandas as pd

        rows = [
            {"group": group.group_id, "topic": key.topic, "partition": key.partition} | offset_json(group.offsets[key])
            for group in self.groups.values()
            for key in sorted(group.offsets)
        ]
        return pd.DataFrame(rows, columns=_OFFSET_COLUMNS.split())

    def members_frame(self) -> pd.DataFrame:
        """Return a pandas DataFrame with a row for each member of each group.

        Topics and partitions are lists, or None if the member's bytes cannot be read. `generation` is set for members
        of classic groups, `member_epoch` for members of consumer, share and streams groups.
        """
        import pandas as pd

        rows = [row for group in self.groups.values() for row in member_rows(group)]
        return pd.DataFrame(rows, columns=_MEMBER_COLUMNS.split())

    def parts(self) -> Iterator[tuple[str, GroupParts]]:
        """Yield the id and the parts of each group, in the order of the ids, without building further groups."""
        unbuilt = self.groups.unbuilt()
        for group_id in sorted(self):
            if group_id in unbuilt:
                yield group_id, unbuilt[group_id]
            else:
                group = self[group_id]
                yield group_id, GroupParts(group, group.offsets, group.pending)


def describe_failure(path: str, partition: int | None, kafka: str, error: str, answers_for_groups: bool = False) -> str:
    """`answers_for_groups` means that the classic coordinator's load fails at its last step, after the groups were
    added to the cache.
    """
    message = f"{path}, partition {partition}: Kafka {kafka} fails to load it: {error}"
    if answers_for_groups:
        return f"{message}. The load fails at its last step: this broker answers for the groups that it had loaded"
    return message


_OFFSET_COLUMNS = """group topic partition offset leader_epoch metadata commit_timestamp expire_timestamp topic_id
    record_offset"""
_MEMBER_COLUMNS = """group generation member_id group_instance_id client_id client_host rebalance_timeout_ms
    session_timeout_ms member_epoch subscribed_topics assigned_partitions"""


def _partition_json(loaded: LoadedPartition) -> dict[str, Any]:
    fields = asdict(loaded)
    del fields["record_offset"]  # The error contains it as text.
    if loaded.zeros is not None:
        del fields["zeros"]["later_segments"]
    if loaded.gaps is None:
        del fields["gaps"]
    return fields
