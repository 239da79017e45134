"""The application of a rescue plan: compare the plan with a cluster, and commit the offsets that differ.

Nothing is written into `__consumer_offsets` directly. Each group's coordinator gets an OffsetCommit request, as from
Kafka's admin client. A group is refused if it has members. An offset is refused if its topic or partition does not
exist, or if the offset is negative or outside the partition's log. Everything is checked again right before a group is
written.

Every commit sets an offset to a value that does not depend on earlier commits. So an application that was interrupted
can be repeated, and ends the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.live.client import Cluster, NoSuchTopic, TopicRefused, connect, refresh_leaders
from kafkagroups.live.coordinators import Coordinators, FetchedOffset, GroupRefused, GroupState
from kafkagroups.live.log_ranges import ask_log_ranges
from kafkagroups.live.security import Security
from kafkagroups.live.waits import MAX_WAIT_SECONDS, Waits, ignore_report
from kafkagroups.rescue.make_plan import check_targets
from kafkagroups.rescue.plan import GroupPlan, PlannedOffset, RescuePlan

OUT_OF_RANGE = ("refuse", "clamp", "skip")
"""What to do with an offset outside the partition's log."""
FREE_RESPONSE_SECONDS = 0.2
"""How much of the time of each response is not a wait. A plan can need many requests, and most responses are quick."""
STATES_WITHOUT_MEMBERS = ("Empty", "Dead")
NO_GROUP = GroupState("Dead", "")


@dataclass(frozen=True, slots=True)
class RescueRow:
    """What happened to one offset of a plan.

    Attributes
    ----------
    group, topic_partition
        The group's id in the cluster, and the topic partition.
    now
        The offset that the cluster had before; None if it had none, or if it is not known.
    planned
        The offset in the plan.
    result
        "would_set" (it differs, and nothing was written), "set", "same", "skipped" (it is out of range, and the caller
        asked to skip it) or "refused".
    why
        Why the offset was refused, skipped or changed. None if there is nothing to say.
    clamped_to
        The offset that is set instead of `planned`, because `planned` is outside the partition's log.
    """

    group: str
    topic_partition: TopicPartition
    now: int | None
    planned: int
    result: str
    why: str | None = None
    clamped_to: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row as `kafkagroups rescue apply --json` prints it."""
        fields: dict[str, Any] = {
            "group": self.group,
            "topic_partition": str(self.topic_partition),
            "now": self.now,
            "planned": self.planned,
            "result": self.result,
            "why": self.why,
        }
        if self.clamped_to is not None:
            fields["clamped_to"] = self.clamped_to
        return fields


def apply_plan(
    plan: RescuePlan,
    bootstrap: str,
    *,
    writes: bool = False,
    out_of_range: str = "refuse",
    security: Security | None = None,
    max_wait: float = MAX_WAIT_SECONDS,
    on_wait: Callable[[str], None] = ignore_report,
) -> Iterator[RescueRow]:
    """Compare a plan with a cluster, and yield a row for each offset. The parameters are those of `apply_rescue`.

    With `writes`, the whole plan is compared before anything is written. Then each group is checked again and written,
    and its rows are yielded.
    """
    if not max_wait > 0:
        raise UsageError(f"max_wait: expected more than 0 seconds, found {max_wait}")
    if out_of_range not in OUT_OF_RANGE:
        raise UsageError(f"out_of_range: expected one of {', '.join(OUT_OF_RANGE)}, found {out_of_range!r}")
    check_targets(plan)
    with connect(bootstrap, security or Security()) as cluster:
        cluster.waits = Waits(max_wait, on_wait, free_response_seconds=FREE_RESPONSE_SECONDS)
        target = _Target(cluster, out_of_range)
        target.connect()
        groups = sorted((group for group in plan.groups.values() if group.offsets), key=lambda group: group.to)
        if not writes:
            for group in groups:
                yield from target.compare(group)
            return
        compared = [target.compare(group) for group in groups]
        for group, rows in zip(groups, compared, strict=True):
            yield from target.write(group, rows)


class _Target:
    """The cluster that gets the offsets."""

    def __init__(self, cluster: Cluster, out_of_range: str) -> None:
        self.cluster = cluster
        self.out_of_range = out_of_range
        self.coordinators = Coordinators(cluster)
        self.has_groups = True
        """Whether the cluster has the topic `__consumer_offsets`. The first FindCoordinator request creates it."""
        self._ranges: dict[str, _TopicRanges] = {}

    def connect(self) -> None:
        """Find the brokers of the cluster. Raises UsageError if no broker responds."""
        try:
            refresh_leaders(self.cluster)
        except NoSuchTopic:
            self.has_groups = False
        except TopicRefused:
            pass  # The user need not have permission to describe the topic itself.

    def compare(self, group: GroupPlan) -> list[RescueRow]:
        """Return the rows of a group: what would be set, what is the same, and what is refused."""
        keys = sorted(group.offsets)
        refused: str | None = None
        offsets = dict.fromkeys(keys, FetchedOffset(None))
        if self.has_groups:
            try:
                refused = _explain_state(self.coordinators.describe(group.to))
                offsets = self.coordinators.fetch_offsets(group.to, keys)
            except GroupRefused as error:
                refused = refused or str(error)
        rows = []
        for key in keys:
            row = self._compare_offset(group.to, key, group.offsets[key], offsets[key])
            if refused is not None:
                row = replace(row, result="refused", why=refused, clamped_to=None)
            rows.append(row)
        return rows

    def _compare_offset(
        self, group: str, key: TopicPartition, planned: PlannedOffset, fetched: FetchedOffset
    ) -> RescueRow:
        now = fetched.offset
        row = RescueRow(group, key, now, planned.offset, "refused", fetched.error)
        if fetched.error is not None:
            return row
        ranges = self._find_ranges(key.topic)
        if key.partition not in ranges.offsets:
            return replace(row, why=ranges.explain_missing(key))
        if planned.offset < 0:
            result = "skipped" if self.out_of_range == "skip" else "refused"
            return replace(row, why=_explain_negative(key, planned.offset), result=result)
        start, end = ranges.offsets[key.partition]
        offset = min(max(planned.offset, start), end)
        why = None
        clamped_to = None
        if offset != planned.offset:
            why = _explain_range(key, planned.offset, start, end)
            if self.out_of_range != "clamp":
                return replace(row, why=why, result="skipped" if self.out_of_range == "skip" else "refused")
            clamped_to = offset
            why = f"{why}: it becomes {offset}"
        if now == offset and fetched.metadata == planned.metadata:
            return replace(row, result="same", why=why, clamped_to=clamped_to)
        if now == offset:
            why = why or "only the metadata differs"
        return replace(row, result="would_set", why=why, clamped_to=clamped_to)

    def _find_ranges(self, topic: str) -> _TopicRanges:
        if topic not in self._ranges:
            self._ranges[topic] = _ask_topic(self.cluster, topic)
        return self._ranges[topic]

    def write(self, group: GroupPlan, compared: list[RescueRow]) -> Iterator[RescueRow]:
        """Check a group again, commit the offsets that differ, and yield the rows.

        `compared` are the rows of the comparison. An offset that was changed since then is refused.
        """
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
                rows[old.topic_partition] = replace(row, result="refused", why=why, clamped_to=None)
        offsets = {}
        for key, row in rows.items():
            if row.result == "would_set":
                offset = row.planned if row.clamped_to is None else row.clamped_to
                offsets[key] = (offset, group.offsets[key].metadata)
        for key, error in self.coordinators.commit(group.to, offsets):
            if error is None:
                rows[key] = replace(rows[key], result="set")
            else:
                rows[key] = replace(rows[key], result="refused", why=error, clamped_to=None)
        yield from rows.values()


@dataclass(frozen=True, slots=True)
class _TopicRanges:
    """The log start offset and the high watermark of each partition of a topic.

    `errors` has the reason for each partition without them. `error` is the reason if the topic cannot be used at all.
    """

    topic: str
    offsets: dict[int, tuple[int, int]]
    errors: dict[int, str]
    error: str | None = None

    def explain_missing(self, key: TopicPartition) -> str:
        """Return why a partition has no range of offsets."""
        if self.error is not None:
            return self.error
        if key.partition in self.errors:
            return self.errors[key.partition]
        return f"the topic {self.topic} has no partition {key.partition} in this cluster"


def _ask_topic(cluster: Cluster, topic: str) -> _TopicRanges:
    """Return the ranges of a topic's partitions, or why they are not known."""
    of_topic = replace(cluster, topic=topic, leaders={})
    try:
        refresh_leaders(of_topic)
        offsets, errors = ask_log_ranges(of_topic, sorted(of_topic.leaders))
    except UsageError as error:
        return _TopicRanges(topic, {}, {}, str(error))
    end = cluster.waits.explain_end()
    return _TopicRanges(topic, offsets, {number: f"{topic}-{number}: {error}{end}" for number, error in errors.items()})


def _explain_state(state: GroupState) -> str | None:
    """Return why a group in this state is refused. None: it is not."""
    if state.type == "share":
        return "the cluster has a share group with this id: choose another id with --rename"
    if state.state not in STATES_WITHOUT_MEMBERS:
        return f"the group has members (it is {state.state}): stop its consumers, and run the command again"
    return None


def _explain_negative(key: TopicPartition, offset: int) -> str:
    """Return why a negative offset is not set. Brokers accept it from clients, but it is no position to clamp."""
    return f"offset {offset} of {key} is out of range: consumers treat a negative offset as no offset"


def _explain_range(key: TopicPartition, offset: int, start: int, end: int) -> str:
    if offset < start:
        return f"offset {offset} is below the log start offset {start} of {key}"
    return f"offset {offset} is beyond the log end offset {end} of {key}"


def _show(offset: int | None) -> str:
    return "no offset" if offset is None else str(offset)
