"""The application of a rescue plan: compare the plan with a cluster, and commit the offsets that differ.

A group is refused if it has members, and an offset if its topic or partition does not exist, or if it is negative or
outside the partition's log. Everything is checked again right before a group is written.

A commit does not depend on earlier ones, so an interrupted application can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, TypedDict

from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.repair.client import (
    MAX_WAIT_SECONDS,
    Cluster,
    NoSuchTopic,
    Security,
    TopicRefused,
    Waits,
    ask_log_ranges,
    connect,
    ignore_report,
    refresh_leaders,
)
from kafkagroups.repair.group_requests import Coordinators, FetchedOffset, GroupRefused, GroupState
from kafkagroups.repair.plan import GroupPlan, PlannedOffset, RescuePlan, check_targets

OUT_OF_RANGE = ("refuse", "clamp", "skip")
"""What to do with an offset outside the partition's log."""
FREE_RESPONSE_SECONDS = 0.2
"""The time of each response that is not a wait, since a plan can need many requests and most responses are quick."""
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


class ApplyOptions(TypedDict, total=False):
    writes: bool
    out_of_range: str
    security: Security | None
    max_wait: float
    on_wait: Callable[[str], None]


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
    """Compare a plan with a cluster, and yield a row for each offset, with the parameters of `apply_rescue`.

    With `writes`, the whole plan is compared before anything is written.
    """
    waits = Waits(max_wait, on_wait, FREE_RESPONSE_SECONDS)
    if out_of_range not in OUT_OF_RANGE:
        raise UsageError(f"out_of_range: expected one of {', '.join(OUT_OF_RANGE)}, found {out_of_range!r}")
    check_targets(plan)
    with connect(bootstrap, security, waits) as cluster:
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
            refresh_leaders(cluster)
        except NoSuchTopic:
            self.has_groups = False
        except TopicRefused:
            pass  # The user need not have permission to describe the topic itself.

    def compare(self, group: GroupPlan) -> list[RescueRow]:
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
        refresh_leaders(of_topic)
        offsets, errors = ask_log_ranges(of_topic, sorted(of_topic.leaders))
    except UsageError as error:
        return str(error)
    end = cluster.waits.explain_end()
    return {**offsets, **{number: f"{topic}-{number}: {error}{end}" for number, error in errors.items()}}


def _explain_state(state: GroupState) -> str | None:
    if state.type == "share":
        return "the cluster has a share group with this id: choose another id with --rename"
    if state.state not in STATES_WITHOUT_MEMBERS:
        return f"the group has members (it is {state.state}): stop its consumers, and run the command again"
    return None


def _show(offset: int | None) -> str:
    return "no offset" if offset is None else str(offset)
