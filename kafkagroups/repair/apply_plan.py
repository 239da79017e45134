"""The application of a rescue plan: compare the plan with a cluster, and commit the offsets that differ.

A group is refused if it has members, and an offset if its topic or partition does not exist, or if it is negative or
outside the partition's log. Everything is checked again right before a group is written.

A commit does not depend on earlier ones, so an interrupted application can be repeated.

FindCoordinator names the broker that is a group's coordinator. If the coordinator moves, is loading or is down, a
request about the group is sent again after a wait. Offsets are committed without a membership: generation -1 and an
empty member id, as Kafka's admin client does. A coordinator refuses this commit if the group has members, so a group
that got one after the last check is safe.
Source (4.3.1): FindCoordinatorRequest.json; DescribeGroupsRequest.json; ListGroupsRequest.json;
OffsetFetchRequest.json; OffsetCommitRequest.json; validateOffsetCommit in ClassicGroup and in ConsumerGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple, Unpack

from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition, group_by_topic
from kafkagroups.loading.columns import split_by_size
from kafkagroups.repair import client
from kafkagroups.repair.client import Cluster, describe_code, describe_error
from kafkagroups.repair.plan import GroupPlan, PlannedOffset, RescuePlan, check_targets

NO_OFFSET = -1
MAX_COMMIT_PARTITIONS = 1000
MAX_COMMIT_BYTES = 256 * 1024
"""The limit of the names and metadata in one commit, so that its batch fits into the topic."""
# Kafka's error codes.
LOADING = 14
NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
UNKNOWN_MEMBER_ID = 25
UNSTABLE_OFFSET_COMMIT = 88
_RETRIABLE = (LOADING, NOT_AVAILABLE, NOT_COORDINATOR)
NOT_ANSWERED = "the coordinator did not answer for this partition"

_REASONS = {
    UNKNOWN_MEMBER_ID: "the group has members: stop its consumers",
    UNSTABLE_OFFSET_COMMIT: "a transaction has a pending commit for this partition: wait until it ends",
}


class GroupRefused(Exception):
    """A request about a group failed. The message is the reason in one line."""


class FetchedOffset(NamedTuple):
    offset: int | None
    metadata: str = ""
    error: str | None = None


class Coordinators:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._coordinator_of: dict[str, int] = {}

    def find_obstacle(self, group: str) -> str | None:
        """Return why the offsets of a group cannot be set. Raises GroupRefused."""
        from kafka.errors import KafkaConnectionError
        from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest

        def find(response: Any) -> Any:
            found = [described for described in response.groups or () if described.group_id == group]
            if len(found) != 1:  # A Kafka broker cannot have sent this response.
                raise KafkaConnectionError(f"expected one group in a {response.name}, found {len(found)}")
            return found[0]

        request = DescribeGroupsRequest(groups=[group], include_authorized_operations=False, max_version=5)
        described = find(self._ask(group, request, lambda response: int(find(response).error_code)))
        state = described.group_state
        if state == "Dead":
            # To this request, a group of a newer protocol is Dead too. Only ListGroups and newer requests know it.
            response = self._ask(group, ListGroupsRequest(states_filter=[], types_filter=[], max_version=5))
            for listed in response.groups or ():
                if listed.group_id == group and listed.group_type == "share":
                    return "the cluster has a share group with this id: choose another id with --rename"
                if listed.group_id == group:
                    state = listed.group_state or "Dead"
        if state in STATES_WITHOUT_MEMBERS:
            return None
        return f"the group has members (it is {state}): stop its consumers, and run the command again"

    def fetch_offsets(self, group: str, keys: Iterable[TopicPartition]) -> dict[TopicPartition, FetchedOffset]:
        """Return the committed offsets of some partitions. Raises GroupRefused."""
        from kafka.protocol.consumer import OffsetFetchRequest

        keys = list(keys)
        topic_type = OffsetFetchRequest.OffsetFetchRequestTopic
        topics = [
            topic_type(name=topic, partition_indexes=numbers) for topic, numbers in group_by_topic(sorted(keys)).items()
        ]
        # Since version 8, a request names several groups in another form. Every broker still answers version 7.
        request = OffsetFetchRequest(group_id=group, topics=topics, require_stable=True, min_version=2, max_version=7)
        offsets = dict.fromkeys(keys, FetchedOffset(None, error=NOT_ANSWERED))
        for key, partition in _partitions(self._ask(group, request)):
            if partition.error_code:
                offsets[key] = FetchedOffset(None, error=explain_code(partition.error_code))
            elif partition.committed_offset == NO_OFFSET:
                offsets[key] = FetchedOffset(None)
            else:
                offsets[key] = FetchedOffset(partition.committed_offset, partition.metadata or "")
        return {key: offsets[key] for key in keys}

    def commit(
        self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]
    ) -> Iterator[tuple[TopicPartition, str | None]]:
        """Yield for each partition why it was refused; None if it is committed.

        Large groups need several requests, so after an interruption some of the offsets are committed.
        """
        for part in map(dict, split_by_size(offsets.items(), _count_bytes, MAX_COMMIT_PARTITIONS, MAX_COMMIT_BYTES)):
            try:
                codes = self._commit_part(group, part)
            except GroupRefused as error:
                yield from ((key, str(error)) for key in part)
                continue
            for key in part:
                why = explain_code(codes[key]) if codes.get(key) else None
                yield key, why if key in codes else NOT_ANSWERED

    def _commit_part(self, group: str, offsets: Mapping[TopicPartition, tuple[int, str]]) -> dict[TopicPartition, int]:
        from kafka.protocol.consumer import OffsetCommitRequest

        topic_type = OffsetCommitRequest.OffsetCommitRequestTopic
        topics = []
        for topic, commits in groupby(sorted(offsets.items()), key=lambda commit: commit[0].topic):
            partitions = [
                topic_type.OffsetCommitRequestPartition(
                    partition_index=key.partition, committed_offset=offset, committed_metadata=metadata
                )
                for key, (offset, metadata) in commits
            ]
            topics.append(topic_type(name=topic, partitions=partitions))
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,  # Without a membership.
            member_id="",
            topics=topics,
            # Since version 10, a request contains topic ids instead of names.
            min_version=2,
            max_version=9,
        )

        def read_error(response: Any) -> int:
            codes = [partition.error_code for _, partition in _partitions(response)]
            return next((code for code in codes if code in _RETRIABLE), 0)

        response = self._ask(group, request, read_error)
        return {key: partition.error_code for key, partition in _partitions(response)}

    def _ask(
        self, group: str, request: Any, read_error: Callable[[Any], int] = lambda response: int(response.error_code)
    ) -> Any:
        from kafka.errors import KafkaError, NodeNotReadyError, for_code

        error: Any = None
        for _ in self.cluster.retry(lambda: f"the coordinator of group {group!r} does not answer yet"):
            try:
                response = self.cluster.send(self._find_coordinator(group), request)
                code = read_error(response)
                if not code:
                    return response
                if code not in _RETRIABLE:
                    raise GroupRefused(explain_code(code))
                error = for_code(code)()
            except NodeNotReadyError as not_ready:
                error = error or not_ready  # An earlier error explains why the broker is not ready.
            except KafkaError as failure:
                error = failure
            self._coordinator_of.pop(group, None)
            if not error.retriable:
                break
        raise GroupRefused(f"{describe_error(error)}{self.cluster.waits.explain_end()}")

    def _find_coordinator(self, group: str) -> int:
        from kafka.errors import KafkaConnectionError, for_code
        from kafka.protocol.metadata import FindCoordinatorRequest

        if group in self._coordinator_of:
            return self._coordinator_of[group]
        # The key type 0 is a group id.
        request = FindCoordinatorRequest(key=group, key_type=0, coordinator_keys=[group], max_version=3)
        try:
            response = self.cluster.ask_any_broker(request, lambda response: response)
        except client.NoBroker as failure:
            raise (failure.errors or [KafkaConnectionError("no broker responds")])[-1] from None
        if response.error_code:
            raise for_code(response.error_code)()
        if self.cluster.manager.cluster.broker_metadata(response.node_id) is None:
            raise KafkaConnectionError(f"the coordinator is broker {response.node_id}, which is not in the cluster")
        self._coordinator_of[group] = int(response.node_id)
        return self._coordinator_of[group]


def explain_code(code: int) -> str:
    name = describe_code(code)
    return f"{_REASONS[code]} ({name})" if code in _REASONS else name


def _partitions(response: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in response.topics or ():
        for partition in topic.partitions or ():
            yield TopicPartition(topic.name, partition.partition_index), partition


def _count_bytes(commit: tuple[TopicPartition, tuple[int, str]]) -> int:
    key, (_, metadata) = commit
    return len(key.topic.encode()) + len(metadata.encode())


OUT_OF_RANGE = ("refuse", "clamp", "skip")
"""What to do with an offset outside the partition's log."""
STATES_WITHOUT_MEMBERS = ("Empty", "Dead")
_Ranges = dict[int, tuple[int, int] | str]


@dataclass(frozen=True, slots=True)
class RescueRow:
    """What happened to one offset of a plan.

    `now` is the offset that the cluster had before; None if it had none, or if it is not known. `result` is "would_set"
    (it differs, and nothing was written), "set", "same", "skipped" (out of range, as the caller asked) or "refused".
    `why` says why it was refused, skipped or changed. `clamped_to` is set instead of `planned`, if this is outside the
    partition's log.
    """

    group: str
    topic_partition: TopicPartition
    now: int | None
    planned: int
    result: str
    why: str | None = None
    clamped_to: int | None = None

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self) | {"topic_partition": str(self.topic_partition)}
        if self.clamped_to is None:
            del fields["clamped_to"]
        return fields


class ApplyOptions(client.Connection, total=False):
    writes: bool
    out_of_range: str


def apply_plan(
    plan: RescuePlan,
    bootstrap: str,
    *,
    writes: bool = False,
    out_of_range: str = "refuse",
    **connection: Unpack[client.Connection],
) -> Iterator[RescueRow]:
    """Compare a plan with a cluster, and yield a row for each offset, with the parameters of `apply_rescue`.

    With `writes`, the whole plan is compared before anything is written.
    """
    if out_of_range not in OUT_OF_RANGE:
        raise UsageError(f"out_of_range: expected one of {', '.join(OUT_OF_RANGE)}, found {out_of_range!r}")
    check_targets(plan)
    with client.connect(bootstrap, **connection) as cluster:
        target = _Target(cluster, out_of_range)
        groups = sorted((group for group in plan.groups.values() if group.offsets), key=lambda group: group.to)
        if not writes:
            for group in groups:
                yield from target.compare(group)
            return
        compared = [target.compare(group) for group in groups]
        for group, rows in zip(groups, compared, strict=True):
            yield from target.write(group, rows)


class _Target:
    def __init__(self, cluster: Cluster, out_of_range: str) -> None:
        self.cluster = cluster
        self.out_of_range = out_of_range
        self.coordinators = Coordinators(cluster)
        self.has_groups = True
        """Whether the cluster has the topic `__consumer_offsets`. The first FindCoordinator request creates it."""
        self._ranges: dict[str, _Ranges | str] = {}
        try:
            cluster.refresh_leaders()
        except client.NoSuchTopic:
            self.has_groups = False
        except client.TopicRefused:
            pass  # The user need not have permission to describe the topic itself.

    def compare(self, group: GroupPlan) -> list[RescueRow]:
        keys = sorted(group.offsets)
        refused: str | None = None
        offsets = dict.fromkeys(keys, FetchedOffset(None))
        if self.has_groups:
            try:
                refused = self.coordinators.find_obstacle(group.to)
                offsets = self.coordinators.fetch_offsets(group.to, keys)
            except GroupRefused as error:
                refused = refused or str(error)
        rows = []
        for key in keys:
            row = self._compare_offset(group.to, key, group.offsets[key], offsets[key])
            rows.append(row if refused is None else _refuse(row, refused))
        return rows

    def _compare_offset(
        self, group: str, key: TopicPartition, planned: PlannedOffset, fetched: FetchedOffset
    ) -> RescueRow:
        now = fetched.offset
        row = RescueRow(group, key, now, planned.offset, "refused", fetched.error)
        if fetched.error is not None:
            return row
        found = self._find_range(key)
        if isinstance(found, str):
            return replace(row, why=found)
        out_of_range = "skipped" if self.out_of_range == "skip" else "refused"
        if planned.offset < 0:  # Brokers accept it from clients, but it is no position to clamp.
            why = f"offset {planned.offset} of {key} is out of range: consumers treat a negative offset as no offset"
            return replace(row, why=why, result=out_of_range)
        start, end = found
        offset = min(max(planned.offset, start), end)
        is_same = now == offset and fetched.metadata == planned.metadata
        row = replace(row, result="same" if is_same else "would_set")
        if offset == planned.offset:
            return replace(row, why="only the metadata differs" if now == offset and not is_same else None)
        place = f"below the log start offset {start}" if planned.offset < start else f"beyond the log end offset {end}"
        why = f"offset {planned.offset} is {place} of {key}"
        if self.out_of_range == "clamp":
            return replace(row, why=f"{why}: it becomes {offset}", clamped_to=offset)
        return replace(row, why=why, result=out_of_range)

    def _find_range(self, key: TopicPartition) -> tuple[int, int] | str:
        if key.topic not in self._ranges:
            self._ranges[key.topic] = _ask_topic(self.cluster, key.topic)
        ranges = self._ranges[key.topic]
        if isinstance(ranges, str):
            return ranges
        return ranges.get(key.partition, f"the topic {key.topic} has no partition {key.partition} in this cluster")

    def write(self, group: GroupPlan, compared: list[RescueRow]) -> Iterator[RescueRow]:
        """Check a group again, and commit the offsets that differ. One that changed since `compared` is refused."""
        if not any(row.result == "would_set" for row in compared):
            yield from compared
            return
        self._ranges.clear()
        self.has_groups = True
        rows = {row.topic_partition: row for row in self.compare(group)}
        for old in compared:
            row = rows[old.topic_partition]
            if row.result == "would_set" and (row.now != old.now or old.result != "would_set"):
                why = (
                    f"the offset was changed from {_show(old.now)} to {_show(row.now)} meanwhile: run the command again"
                )
                rows[old.topic_partition] = _refuse(row, why)
        offsets = {}
        for key, row in rows.items():
            if row.result == "would_set":
                offset = row.planned if row.clamped_to is None else row.clamped_to
                offsets[key] = (offset, group.offsets[key].metadata)
        for key, error in self.coordinators.commit(group.to, offsets):
            rows[key] = replace(rows[key], result="set") if error is None else _refuse(rows[key], error)
        yield from rows.values()


def _refuse(row: RescueRow, why: str) -> RescueRow:
    return replace(row, result="refused", why=why, clamped_to=None)


def _ask_topic(cluster: Cluster, topic: str) -> _Ranges | str:
    of_topic = replace(cluster, topic=topic, leaders={})
    try:
        of_topic.refresh_leaders()
        offsets, errors = of_topic.ask_log_ranges(sorted(of_topic.leaders))
    except UsageError as error:
        return str(error)
    end = cluster.waits.explain_end()
    return {**offsets, **{number: f"{topic}-{number}: {error}{end}" for number, error in errors.items()}}


def _show(offset: int | None) -> str:
    return "no offset" if offset is None else str(offset)
