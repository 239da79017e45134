"""Rebalance storms: rebalances of a group that nothing new explains.

A process that joins or leaves explains a rebalance, so a deployment of N processes explains 2 N of them, and with a
cooperative assignor up to SETTLING more follow, in which the members stay the same. A rebalance is repeated if it has
neither reason: a process joins that has already joined twice within WINDOW_MS, or the same members begin a further
generation. A storm lasts at least MIN_STORM_MS and has MIN_REBALANCES within WINDOW_MS, of which at least MIN_REPEATED
are repeated.

A process is an instance id, or else a client id and a host; several members at the same time can share the two. A job
that is alone in its group and starts every minute looks like a process in a crash loop, so a storm without other
members counts only if the group was quiet before for at least as long.
Source: in a stable group, a JoinGroup request of the leader, or one with a changed subscription, begins a rebalance
(GroupCoordinator.doCurrentMemberJoinGroup, 3.9.2; GroupMetadataManager.classicGroupJoinExistingMember, 4.3.1).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kafkagroups.history.event import Event, Member, split_runs
from kafkagroups.history.finding import describe_duration, list_names, name_record

WINDOW_MS = 3_600_000
MIN_REBALANCES = 20
"""A group with fewer within WINDOW_MS is not looked at (totals.py, engine/src/follow.rs)."""
MIN_STORM_MS = 120_000
MIN_REPEATED = 10
SETTLING = 2
Process = tuple[str, ...]
SAME_MEMBERS: Process = ()
"""The reason of a repeated rebalance in which the members stay the same; otherwise, it is the process that joins."""
SAME_MEMBERS_REMEDY = (
    "Compare the subscriptions and assignors of the members: one that changes them at each poll begins a rebalance "
    "each time, and so does a leader that joins again, or a new topic that a pattern matches (timeline --all names it)."
)
JOINS_REMEDY = (
    "Read this client's log: it crashes (if each member that left had the same partition, perhaps at a record there), "
    "a poll takes longer than max.poll.interval.ms (lower max.poll.records, or lengthen it), or its session expires."
)
INSTANCE_REMEDY = "If two processes have this group.instance.id, give each one its own."


def identify(member: Member) -> Process:
    return (member.client_id, member.host) if member.instance_id is None else (member.instance_id,)


class Storm(NamedTuple):
    """A storm in one partition: the rebalances from the first repeated one to the last, and what is behind them."""

    rebalances: Sequence[Event]
    what: str
    remedy: str

    @property
    def event(self) -> Event:
        """The storm as an event of the group, at its first rebalance."""
        first = self.rebalances[0]
        place = (first.partition, first.offset, first.timestamp_ms)
        return Event(*place, "storm", first.generation, what=f"{self.what}.")


@dataclass
class _Members:
    """The members after an event, and the times at which each process joined lately."""

    by_id: dict[str, Member] = field(default_factory=dict)
    joins: dict[Process, deque[int]] = field(default_factory=dict)
    most_at_once: Counter[Process] = field(default_factory=Counter)
    unchanged: int = 0
    """How many rebalances in a row the members have stayed the same."""

    def update(self, event: Event) -> None:
        for member_id in event.members_left:
            self.by_id.pop(member_id, None)
        self.by_id.update(event.members)

    def find_reason(self, event: Event, time_ms: int) -> Process | None:
        """Apply a rebalance. Return its reason if it is repeated."""
        self.update(event)
        if not event.members_joined:
            self.unchanged = 0 if event.members_left or not self.by_id else self.unchanged + 1
            return SAME_MEMBERS if self.unchanged > SETTLING else None
        self.unchanged = 0
        now = Counter(map(identify, self.by_id.values()))
        repeated = None
        for _, member in event.members:
            process = identify(member)
            self.most_at_once[process] = max(self.most_at_once[process], now[process])
            joins = self.joins.setdefault(process, deque())
            joins.append(time_ms)
            while joins[0] < time_ms - WINDOW_MS:
                joins.popleft()
            if len(joins) > 2 * self.most_at_once[process]:
                repeated = process
        return repeated


class Repeated(NamedTuple):
    """A repeated rebalance: its number in the history of the group, its time, its reason, and the members after it."""

    number: int
    time_ms: int
    reason: Process
    members: Sequence[Member]


def find_storms(events: Sequence[Event]) -> list[Storm]:
    """Return the storms in the events of a group in one partition, in their order."""
    members = _Members()
    rebalances: list[Event] = []
    repeated: list[Repeated] = []
    for event in events:
        time_ms = event.timestamp_ms
        if event.event == "deleted":
            members.by_id.clear()
        if event.event not in ("generation", "epoch", "empty") or event.is_routine or time_ms is None:
            continue
        if rebalances and event.generation == rebalances[-1].generation:
            members.update(event)  # A static member has a new id, or a member a new assignment.
            continue
        rebalances.append(event)
        reason = members.find_reason(event, time_ms)
        if reason is not None:
            if repeated and time_ms - repeated[-1].time_ms <= WINDOW_MS:
                # Only the last one of a run needs all members, of which a group can have thousands.
                repeated[-1] = repeated[-1]._replace(members=repeated[-1].members[:2])
            repeated.append(Repeated(len(rebalances) - 1, time_ms, reason, [*members.by_id.values()]))
    return [
        _describe(rebalances[run[0].number : run[-1].number + 1], run)
        for run in split_runs(repeated, lambda each, run: each.time_ms - run[-1].time_ms > WINDOW_MS)
        if _is_dense(rebalances, run) and (any(len(each.members) > 1 for each in run) or _was_quiet(rebalances, run))
    ]


def _is_dense(rebalances: Sequence[Event], run: Sequence[Repeated]) -> bool:
    """Return whether a run is long enough, and WINDOW_MS contain MIN_REBALANCES and MIN_REPEATED of the run."""
    if run[-1].time_ms - run[0].time_ms < MIN_STORM_MS:
        return False
    for first, end in zip(run, run[MIN_REPEATED - 1 :], strict=False):
        if end.number < MIN_REBALANCES - 1:
            continue
        start_ms = rebalances[end.number - MIN_REBALANCES + 1].timestamp_ms or 0
        if end.time_ms - min(first.time_ms, start_ms) <= WINDOW_MS:
            return True
    return False


def _was_quiet(rebalances: Sequence[Event], run: Sequence[Repeated]) -> bool:
    """Return whether the group had less than a quarter of these rebalances in the same time before."""
    times = [event.timestamp_ms or 0 for event in rebalances]
    start_ms = 2 * run[0].time_ms - run[-1].time_ms
    before = [time for time in times if start_ms <= time < run[0].time_ms]
    return times[0] <= start_ms and 4 * len(before) < len(run)


def _describe(rebalances: Sequence[Event], run: Sequence[Repeated]) -> Storm:
    last = rebalances[-1]
    duration = describe_duration(run[-1].time_ms - run[0].time_ms)
    until = name_record(last.partition, last.offset)
    what = f"Rebalance storm: {len(rebalances)} rebalances in {duration}, until record {until}; "
    reason, count = Counter(each.reason for each in run).most_common(1)[0]
    if reason == SAME_MEMBERS:
        what += f"in {count} of them, the members stay the same; the last one: {last.what.removesuffix('.')}"
        return Storm(rebalances, what, SAME_MEMBERS_REMEDY)
    joined = [member for event in rebalances for _, member in event.members if identify(member) == reason]
    what += f"{joined[-1].description} joined {count} times with a new member id"
    what += "".join(_compare_timeouts(joined[-1], run[-1].members))
    what += _describe_lost(rebalances)
    instance_id = joined[-1].instance_id
    return Storm(rebalances, what, JOINS_REMEDY if instance_id is None else f"{JOINS_REMEDY} {INSTANCE_REMEDY}")


def _describe_lost(rebalances: Sequence[Event]) -> str:
    """Say which partitions all members that left had. Those of one process can be only its usual share."""
    lost = [each for event in rebalances for each in event.lost]
    if len(lost) < MIN_REPEATED or len({identify(member) for member, _ in lost}) == 1:
        return ""
    shared = frozenset.intersection(*(partitions for _, partitions in lost))
    names = list_names(sorted(shared))
    return f"; each of the {len(lost)} members that left with partitions had {names}" if shared else ""


def _compare_timeouts(member: Member, members: Sequence[Member]) -> Iterator[str]:
    """Say which time-outs of a member none of the others has."""
    others = [each for each in members if identify(each) != identify(member)]
    for name in ("session timeout", "rebalance timeout"):
        of_others = sorted({each.settings[name] for each in others})
        if of_others and member.settings[name] not in of_others:
            yield f"; its {name} is {member.settings[name]}, and that of the others {' or '.join(of_others)}"


def add_storms(events: Sequence[Event]) -> Iterator[Event]:
    """Yield the events of a group in one partition with one for each storm, whose generations become routine."""
    storms = find_storms(events)
    first = {id(storm.rebalances[0]): storm for storm in storms}
    repeated = {id(event) for storm in storms for event in storm.rebalances if event.event != "epoch"}
    for event in events:
        if id(event) in first:
            yield first[id(event)].event
        yield replace(event, is_routine=True) if id(event) in repeated else event
