"""What the history of a group consists of: its events, its members, and how far it had been at each topic partition.

A position goes back if a commit is lower than the one before, and moves if a commit changes the offset; a consumer
often commits the same offset again. A position that stands still can have no new records, or its consumer can be stuck.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any, NamedTuple, TypeVar

from kafkagroups.errors import BadBytes
from kafkagroups.groups.group import CONSUMER
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.finding import count_of, describe_time, list_names, name_record
from kafkagroups.log.batch import NO_TIMESTAMP
from kafkagroups.records.consumer_protocol import decode_subscription


class Cause(Enum):
    """How a tombstone came to be, as far as the log tells.

    EXPIRED: the expire timestamp in the commit had passed.
    GROUP_DELETED: the group was deleted: by a request, or because it had no member and no offset left.
    OFFSET_DELETED: a request deleted the offset.
    TOPIC_DELETED: the topic was deleted.
    UNKNOWN: the log fits several of these causes, or none of them.
    """

    EXPIRED = "expired"
    GROUP_DELETED = "group_deleted"
    OFFSET_DELETED = "offset_deleted"
    TOPIC_DELETED = "topic_deleted"
    UNKNOWN = "unknown"


class Member(NamedTuple):
    """A member as its newest record describes it. A field that the record does not have is None, or "" for the host.

    `topics` are the names of the topics to which the member subscribes; None if the subscription cannot be read.
    `pattern` is the pattern of topic names to which it subscribes. A streams member has neither: its topology is in
    another record. The timeouts are in ms.
    """

    name: str
    instance_id: str | None
    topics: frozenset[str] | None
    pattern: str | None = None
    client_id: str = ""
    host: str = ""
    rack: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        """What the record says about the member, without its subscription."""
        return {name: value for name, value in self._asdict().items() if name not in ("name", "topics", "pattern")}

    @property
    def description(self) -> str:
        """The member's name and its host."""
        return f"{self.name}{self.host_text}"

    @property
    def host_text(self) -> str:
        """The host in parentheses, as a part of a sentence; "" if the host is not known."""
        host = self.host.removeprefix("/")
        return f" ({host})" if host else ""

    @property
    def settings(self) -> dict[str, str]:
        """What a new process of the same static member can have changed, by the name in a sentence."""
        timeouts = {"session timeout": self.session_timeout_ms, "rebalance timeout": self.rebalance_timeout_ms}
        return {
            "client id": self.client_id or "none",
            "host": self.host.removeprefix("/") or "none",
            **{name: "none" if ms is None else f"{ms} ms" for name, ms in timeouts.items()},
            "rack": self.rack or "none",
        }

    def describe_changes(self, old: Member) -> str:
        """The settings that differ from those of the old process, for example "rack a -> none"."""
        before = old.settings
        changes = {name: setting for name, setting in self.settings.items() if setting != before[name]}
        return ", ".join(f"{name} {before[name]} -> {setting}" for name, setting in changes.items())


def read_member(member: Any, protocol_type: str) -> Member:
    """Return the member of a classic group. Only the coordinator of "consumer" groups reads the subscription."""
    topics = None
    rack = None
    with suppress(BadBytes):
        if protocol_type == CONSUMER:
            subscription = decode_subscription(member.subscription).message
            topics = frozenset(subscription.topics)
            rack = subscription.rack_id
    timeouts = (member.session_timeout, None if member.rebalance_timeout == -1 else member.rebalance_timeout)
    process = (member.client_id, member.client_host, rack, *timeouts)
    return Member(member.client_id or member.member_id, member.group_instance_id, topics, None, *process)


def name_members(members: Mapping[str, Member]) -> dict[str, str]:
    """Return the name of each member, by its id. Members with the same client id also have their hosts in it."""
    counts = Counter(member.name for member in members.values())
    return {
        member_id: member.name if counts[member.name] == 1 else member.instance_id or member.description
        for member_id, member in members.items()
    }


class Recreation(NamedTuple):
    """A sign that a topic was created again, in `record` of a group: a new id, or the first commit after a deletion.

    Without ids, the offsets of the topic were deleted together at `deleted_ms`, and `is_certain` says whether only the
    deletion of the topic can have done it.
    """

    topic: str
    record: int
    time_ms: int | None
    ids: tuple[str, str] | None = None
    deleted_ms: int = NO_TIMESTAMP
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a group.

    Attributes
    ----------
    partition
        The partition of the offsets topic; None if the log's folder has no partition number.
    offset
        The offset of the record or marker in the log. For a gap: the first offset of the range.
    timestamp_ms
        The time of the record, in ms since 1970, if there is one.
    event
        The name of the event: "generation", "empty", "deleted", "commit", "rewind", "skip", "expired",
        "offset_deleted", "transaction_committed", "transaction_aborted", "transaction_open", "gap", "epoch", "storm",
        "assignment" or "standing_still".
    generation
        The generation (classic group) or the group epoch (newer groups) after the event, if a record has it.
    members_joined, members_left
        The ids of the members that the previous group record did not contain, and those that only it had. Members
        whose earlier records the log cleaner may have removed are not in `members_joined`.
    leader, protocol
        The leader and the assignor of a generation.
    topic_partition
        The topic partition of an event about an offset.
    from_offset, to_offset
        The committed offset before and after the event; for an aborted or open transaction, `to_offset` is what it
        would commit. For a gap: the first and last offset of the range.
    producer_id
        The producer of a transaction.
    what
        One sentence about the event and about what the log does not say.
    members
        The ids and the data of the members that joined, or of the one whose offset stands still.
    replaced_instances
        The instance ids of static members that got new member ids.
    assigned
        The ids of the members of a newer group whose partitions changed, each with a text that says which it has.
    lost
        The members that left with partitions, each with its topic-partitions as texts.
    can_be_request
        Whether a request can also have deleted an expired offset, as far as the log tells.
    origin
        Who committed what was skipped, as far as the log tells.
    is_routine
        Whether the event only continues what earlier events show, for example a commit that moves forward.
    """

    partition: int | None
    offset: int
    timestamp_ms: int | None
    event: str
    generation: int | None = None
    members_joined: tuple[str, ...] = ()
    members_left: tuple[str, ...] = ()
    leader: str | None = None
    protocol: str | None = None
    topic_partition: TopicPartition | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    producer_id: int | None = None
    what: str = ""
    members: tuple[tuple[str, Member], ...] = ()
    replaced_instances: tuple[str, ...] = ()
    assigned: tuple[tuple[str, str], ...] = ()
    lost: tuple[tuple[Member, frozenset[str]], ...] = ()
    can_be_request: bool = False
    origin: str = ""
    is_routine: bool = False


_NOT_IN_JSON = ("assigned", "lost", "can_be_request", "origin", "is_routine")


def event_json(event: Event) -> dict[str, Any]:
    """Return an event as JSON, for the output of `timeline`: its attributes, in their order."""
    names = [each.name for each in fields(event) if each.name not in _NOT_IN_JSON]
    content = {name.removesuffix("_offset"): getattr(event, name) for name in names}
    content |= {name: list(content[name]) for name in ("members_joined", "members_left", "replaced_instances")}
    content["members"] = [{"member_id": member_id} | member.to_json() for member_id, member in event.members]
    return content | {"topic_partition": event.topic_partition and str(event.topic_partition)}


T = TypeVar("T")
SKIPS_TOGETHER_MS = 5_000
"""Skips of several partitions within this time are one act: of a tool, or of consumers that began at the end."""


def split_runs(items: Iterable[T], begins_run: Callable[[T, list[T]], bool]) -> list[list[T]]:
    """Return the runs of some items. `begins_run` says whether an item does not belong to the run before it."""
    runs: list[list[T]] = []
    for item in items:
        if not runs or begins_run(item, runs[-1]):
            runs.append([])
        runs[-1].append(item)
    return runs


def join_skips(events: Iterable[Event]) -> list[list[Event]]:
    """Return the skips that belong together, in their order. The other events are left out."""

    def is_apart(skip: Event, others: list[Event]) -> bool:
        return (skip.timestamp_ms or 0) - (others[0].timestamp_ms or 0) > SKIPS_TOGETHER_MS

    return split_runs((event for event in events if event.event == "skip"), is_apart)


def describe_skips(skips: Sequence[Event]) -> str:
    """One sentence about skips that belong together."""
    if len(skips) == 1:
        return skips[0].what
    moves = [f"{event.topic_partition} {event.from_offset} -> {event.to_offset}" for event in skips]
    records = sum((event.to_offset or 0) - (event.from_offset or 0) for event in skips)
    origins = " or ".join(dict.fromkeys(event.origin for event in skips))
    partitions = len({event.topic_partition for event in skips})
    return f"{count_of(partitions, 'partition')}, ahead by {records} together: {list_names(moves, 20)}; {origins}."


Members = Mapping[TopicPartition, tuple[str, Member]]
MIN_STEP_MS = 3_600_000
"""How much later than a later record a record must be before a broker's clock is told to be wrong."""
MIN_HISTORY_MS = 5 * 60_000
"""The default of a consumer's max.poll.interval.ms: a shorter history of a group says little about it."""
MIN_STILL_MS = 60_000
"""How long a position at least does not move before it is told to stand still: twelve intervals of auto commit."""
MIN_PAUSE_MS = 10_000
"""Two intervals of auto commit."""
MIN_MOVES = 10
"""How often a position must have moved before its own pauses tell what is usual."""
MIN_SKIP = 1000
SKIP_STEPS = 100
"""A move skips records if it is at least MIN_SKIP and SKIP_STEPS times the longest step so far."""
USUAL_PAUSES = 3
"""A position stands still if it has not moved for this many times its longest pause."""
MIN_TURNS = 4
"""How often two forms of commits must have followed each other before they are two writers."""
MAX_BEHIND = 4
"""A member that keeps its partition commits late at most so often in a row; otherwise it reads again."""
MAX_RANGES = 5
"""A sentence contains at most this many ranges that were read again, the last ones."""


@dataclass
class Reread:
    """What a group reads again after a step back, in `record`.

    `start` is the committed offset after the step back, `before` the one before it, of `before_record`, and `limit` the
    highest one so far. `end` is the highest one since, at most `limit`. A member (`is_by_member`) commits what it has
    read, so it began at `start` or before. If `can_be_late` is true, no new member has begun here or there, and at most
    MAX_BEHIND further commits were behind the position before, so perhaps threads of a member only committed out of
    order, and no record was read again. `owner` has the topic partition; "" if that is not known.
    """

    start: int
    before: int
    before_record: int
    limit: int
    end: int
    record: int
    is_by_member: bool
    can_be_late: bool
    owner: str = ""
    metadata: str = ""
    behind: int = 0


@dataclass(slots=True)
class Position:
    """The committed offsets of one topic partition, after the commits so far and since the last deletion.

    `partition` is that of the offsets topic. `highest_record` is the first record that committed `highest`, and
    `record` the one that committed `now`. `rereads` has an entry for each step back.

    A form is what a program's commits have in common: whether they have a leader epoch and metadata, and whether they
    are in a transaction. If two forms follow each other in turn, and neither goes back on its own, two programs commit
    the same offset, or one does so in two ways (`has_two_writers`), and no record is read twice.

    `moved_record` and `moved_ms` are the commit that changed the offset last, and `forward_ms` is the time of the last
    move forward. `longest_pause_ms` is the longest time between two moves. `member` has the topic partition, as far as
    the log shows. If `stands_still` is true, the group's other positions moved on for at least MIN_STILL_MS since; if
    `pauses` is true, for at least MIN_PAUSE_MS so far. If `is_of_old_topic` is true, the first commit under a new topic
    id repeats the one before it. If `is_set` is true, all commits so far can come from a tool, so nothing shows that
    the group has read up to them.
    """

    topic_partition: TopicPartition
    partition: int | None
    now: int
    record: int
    committed_ms: int | None
    highest: int = -1
    highest_record: int = -1
    rereads: list[Reread] = field(default_factory=list)
    moved_record: int = -1
    moved_ms: int | None = None
    forward_ms: int | None = None
    moves: int = 0
    longest_pause_ms: int = 0
    longest_step: int = 0
    member: tuple[str, Member] | None = None
    owner: str = ""
    stands_still: bool = False
    pauses: bool = False
    is_of_old_topic: bool = False
    is_set: bool = False
    _newest_by_form: dict[str, int] = field(default_factory=dict)
    _member_forms: set[str] = field(default_factory=set)
    """The forms of commits while the group had members."""
    _turns: int = 0
    _form: str = ""
    _goes_back_alone: bool = False
    """Whether a commit was behind the last one of its own form."""

    def __post_init__(self) -> None:
        self.highest = self.now
        self.highest_record = self.moved_record = self.record
        self.moved_ms = self.committed_ms

    def skips(self, offset: int) -> bool:
        """Return whether a commit is far beyond the usual steps. A group that works off a backlog reads so far, too."""
        return self.moves >= MIN_MOVES and offset - self.now >= max(MIN_SKIP, SKIP_STEPS * self.longest_step)

    @property
    def has_two_writers(self) -> bool:
        return len(self._newest_by_form) == 2 and self._turns >= MIN_TURNS and not self._goes_back_alone

    @property
    def has_outsider(self) -> bool:
        """Whether one of two programs only commits while the group has no member."""
        return len(self._member_forms) == 1

    def note_form(self, offset: int, form: str, *, is_outside: bool) -> None:
        """Note the form of a commit, also of the first one, and whether the group had no members."""
        self._member_forms |= set() if is_outside else {form}
        self._goes_back_alone = self._goes_back_alone or offset < self._newest_by_form.get(form, offset)
        self._turns += self._form not in ("", form)
        self._form = form
        self._newest_by_form[form] = offset

    @property
    def late(self) -> Reread | None:
        """The last commit, or an earlier one behind which the position still is, if it can be late."""
        return self.rereads[-1] if self.remaining and self.rereads and self.rereads[-1].can_be_late else None

    def commit(
        self, offset: int, record: int, time_ms: int | None, *, is_by_member: bool, is_set: bool = False, **about: Any
    ) -> None:
        """If `is_set` is true, a tool set it ahead, and nobody has read so far. `about` are fields of Reread."""
        if self.is_set and is_by_member and offset < self.now:
            self.highest = -1
        elif offset < min(self.now, self.highest):
            step = (offset, self.now, self.record, self.highest, offset, record)
            is_new_owner = len({self.owner, about.get("owner", ""), ""}) == 3
            self.rereads.append(Reread(*step, is_by_member, is_by_member and not is_new_owner, **about))
        elif self.rereads:
            last = self.rereads[-1]
            last.behind += offset < last.before
            last.can_be_late &= last.behind <= MAX_BEHIND
            if is_set and last.end > last.start:
                last.limit = last.end
            elif is_set and not last.is_by_member:  # A tool corrects its step back before anybody has read.
                corrected = replace(last, start=offset, end=offset, record=record)
                self.rereads[-1:] = [corrected] if offset < last.limit else []
            else:
                last.end = max(last.end, min(offset, last.limit))
        if offset != self.now:
            if time_ms is not None and self.moved_ms is not None:
                self.longest_pause_ms = max(self.longest_pause_ms, time_ms - self.moved_ms)
            if offset > self.now:
                self.forward_ms = time_ms
                self.longest_step = max(self.longest_step, offset - self.now)
            self.moved_record = record
            self.moved_ms = time_ms
            self.moves += 1
        if offset > self.highest and not is_set:
            self.highest = offset
            self.highest_record = record
        self.is_set &= not is_by_member and offset == self.now
        self.now = offset
        self.record = record
        self.committed_ms = time_ms

    @property
    def can_be_late(self) -> bool:
        """Whether the position is only behind because of commits that can be late."""
        return all(each.can_be_late for each in self.rereads if each.record > self.highest_record)

    @property
    def twice(self) -> list[Reread]:
        """The ranges that the group has read again so far."""
        return [] if self.has_two_writers else [reread for reread in self.rereads if reread.end > reread.start]

    @property
    def remaining(self) -> int:
        """How many offsets the group will read again until it is at its highest committed offset."""
        return max(0, self.highest - self.now)

    def to_json(self) -> dict[str, Any]:
        """Return a position that went back as `explain --json` prints it."""
        names = ("partition", "highest", "highest_record", "now", "record")
        remaining = {"from": self.now, "to": self.highest - 1, "can_be_late": self.can_be_late}
        return {
            "topic_partition": str(self.topic_partition),
            **{name: getattr(self, name) for name in names},
            "read_twice": [
                {"from": each.start, "to": each.end - 1, "record": each.record, "can_be_late": each.can_be_late}
                for each in self.twice
            ],
            "still_to_read_again": remaining if self.remaining else None,
        }

    def describe_last_move(self) -> str:
        if self.moved_ms is None:
            return "last move at an unknown time"
        parts = [f"{'last move' if self.moves else 'first commit, no move since'} {describe_time(self.moved_ms)}"]
        if (self.stands_still or self.pauses) and self.committed_ms is not None:
            repeated = f"committed again until {describe_time(self.committed_ms)}"
            parts.append(repeated if self.committed_ms > self.moved_ms else "no commit since")
        if self.member is not None:
            parts.append(f"now assigned to {self.member[1].description}")
        return ", ".join(parts)

    def describe_rewound(self) -> str:
        if self.has_two_writers:
            alone = ", only while the group has no member" if self.has_outsider else ""
            programs = f"two programs{'' if alone else ', or one in two ways,'}"
            when = {form: "" for form in self._member_forms}
            writers = [f"one {form} is at {now}{when.get(form, alone)}" for form, now in self._newest_by_form.items()]
            return f"{self.topic_partition}: {programs} commit this offset in turn: {', '.join(writers)}."
        highest = f"{self.highest} ({name_record(self.partition, self.highest_record)})"
        now = f"{self.now} ({name_record(self.partition, self.record)})"
        late = [each for each in self.rereads if each.can_be_late]
        ranges = self.twice if len(late) < 2 else [each for each in self.twice if not each.can_be_late]
        twice = []
        for reread in ranges[-MAX_RANGES:]:
            doubt = f" (if {name_record(self.partition, reread.record)} was not a late commit)"
            least = "at least " if reread.is_by_member else ""
            twice.append(f"{least}{reread.start} to {reread.end - 1}{doubt if reread.can_be_late else ''}")
        more = len(ranges) - len(twice)
        earlier = f" and {more} earlier ranges" if more else ""
        twice_text = f"read again: {', '.join(twice)}{earlier}; " if twice else ""
        if len(late) > 1:
            names = sorted({each.metadata for each in late} - {""})
            threads = f" ({list_names(names)})" if 1 < len(names) < len(late) else ""
            twice_text += f"{len(late)} lower commits{threads} without a new owner: "
            twice_text += "late or of another member (not read again), or seeks; "
        if self.remaining:
            rest = f"still to be read again: {self.now} to {self.highest - 1}"
            if self.can_be_late:
                rest += f" if {name_record(self.partition, self.record)} was not a late commit, or by a new owner"
            return f"{self.topic_partition}: the highest committed offset was {highest}, now {now}; {twice_text}{rest}."
        last = self.rereads[-1]
        has_members = any(each.is_by_member for each in self.rereads)
        doubt = "" if has_members or len(self.rereads) < MIN_TURNS else "as if two programs commit in turn, "
        times = f"{len(self.rereads)} times, {doubt}last " if len(self.rereads) > 1 else ""
        before = f"from {last.before} ({name_record(self.partition, last.before_record)})"
        after = f"to {last.start} ({name_record(self.partition, last.record)})"
        end = f"{last.limit} is reached again, now {now}"
        return f"{self.topic_partition}: back {times}{before} {after}; {twice_text}{end}."

    def to_event(self) -> Event:
        """The standstill as an event, whose offset and time are those of the last move."""
        what = f"{self.topic_partition}: {self.now} stands still, {self.describe_last_move()}."
        place = (self.partition, self.moved_record, self.moved_ms)
        members = () if self.member is None else (self.member,)
        about: dict[str, Any] = {"topic_partition": self.topic_partition, "to_offset": self.now, "members": members}
        return Event(*place, "standing_still", what=what, **about)


def sort_rewound(positions: Iterable[Position]) -> list[Position]:
    """The positions that went back, those with the most offsets to read again first."""
    rewound = [position for position in positions if position.rereads]
    return sorted(rewound, key=lambda position: (-position.remaining, position.topic_partition))


def finish_positions(positions: Iterable[Position], members: Members) -> list[Position]:
    """Set the members and the standstills of the positions of one partition, and sort them, the oldest last move
    first.
    """
    ordered = sorted(positions, key=lambda each: (each.moved_ms or 0, each.topic_partition))
    # A tool that sets one offset does not show that the group moves on.
    newest_ms = max((each.forward_ms or 0 for each in ordered if each.moves >= MIN_MOVES), default=0)
    for position in ordered:
        position.member = members.get(position.topic_partition)
        if position.moved_ms is not None and position.moves >= MIN_MOVES:
            pause_ms = newest_ms - position.moved_ms
            is_unusual = pause_ms >= USUAL_PAUSES * position.longest_pause_ms
            position.stands_still = is_unusual and pause_ms >= MIN_STILL_MS
            position.pauses = is_unusual and MIN_PAUSE_MS <= pause_ms < MIN_STILL_MS
    return ordered
