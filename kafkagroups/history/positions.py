"""How far a group had been at each topic partition: what it reads twice, and which positions stand still.

A position goes back if a commit is lower than the one before. It moves if a commit changes the offset. A consumer often
commits the same offset again, which is no move. A position that stands still can have no new records, or its consumer
can be stuck at a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Event, Member
from kafkagroups.history.words import describe_time, name_record

MIN_STANDSTILL_MS = 5 * 60_000
"""The shortest standstill that is shown: the default of a consumer's max.poll.interval.ms."""
MIN_MOVES = 10
"""How often a position must have moved before its own pauses tell what is usual."""
USUAL_PAUSES = 3
"""A position stands still if it has not moved for this many times its longest pause."""
MAX_RANGES = 5
"""How many ranges that were read twice a sentence contains, the last ones."""


@dataclass
class Reread:
    """What a group reads again after a step back.

    `start` is the committed offset after the step back, and `limit` is the highest committed offset before it. `end` is
    the highest one that was committed since, at most `limit`. `record` is the record that stepped back. If
    `can_be_late` is true, a member committed an old position, and the next commit was no longer behind the position
    before. Then perhaps no record was read again.
    """

    start: int
    limit: int
    end: int
    record: int
    can_be_late: bool = False


@dataclass
class Position:
    """The committed offsets of one topic partition, after the commits so far and since the last deletion.

    `partition` is the partition of the offsets topic. `now` and `record` are the newest committed offset and its
    record, and `highest` and `highest_record` the highest one and the first record that committed it. `rereads` has an
    entry for each step back.

    `committed_ms` is the time of the newest commit. `moved_record` and `moved_ms` are the commit that changed the
    offset last, and `forward_ms` is the time of the last move forward. `longest_pause_ms` is the longest time between
    two moves. `member` is the member that has the topic partition; None if the log shows none. If `stands_still` is
    true, the group's other positions moved on.
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
    member: tuple[str, Member] | None = None
    stands_still: bool = False
    _before_step: int = 0
    """The committed offset right before the last step back."""

    def __post_init__(self) -> None:
        self.highest = self.now
        self.highest_record = self.moved_record = self.record
        self.moved_ms = self.committed_ms

    def commit(self, offset: int, record: int, time_ms: int | None, *, is_by_member: bool) -> None:
        """Add a commit."""
        if offset < self.now:
            self.rereads.append(Reread(offset, self.highest, offset, record, is_by_member))
            self._before_step = self.now
        elif self.rereads:
            last = self.rereads[-1]
            if last.record == self.record and offset < self._before_step:
                last.can_be_late = False
            last.end = max(last.end, min(offset, last.limit))
        if offset != self.now:
            if time_ms is not None and self.moved_ms is not None:
                self.longest_pause_ms = max(self.longest_pause_ms, time_ms - self.moved_ms)
            if offset > self.now:
                self.forward_ms = time_ms
            self.moved_record = record
            self.moved_ms = time_ms
            self.moves += 1
        if offset > self.highest:
            self.highest = offset
            self.highest_record = record
        self.now = offset
        self.record = record
        self.committed_ms = time_ms

    @property
    def twice(self) -> list[Reread]:
        """The ranges that the group has read again so far."""
        return [reread for reread in self.rereads if reread.end > reread.start]

    @property
    def remaining(self) -> int:
        """How many offsets the group will read again until it is at its highest position."""
        return max(0, self.highest - self.now)

    def to_json(self) -> dict[str, Any]:
        """Return a position that went back as `explain --json` prints it."""
        return {
            "topic_partition": str(self.topic_partition),
            "partition": self.partition,
            "highest": self.highest,
            "highest_record": self.highest_record,
            "now": self.now,
            "record": self.record,
            "read_twice": [
                {"from": each.start, "to": each.end - 1, "record": each.record, "can_be_late": each.can_be_late}
                for each in self.twice
            ],
            "still_to_read_again": {"from": self.now, "to": self.highest - 1} if self.remaining else None,
        }

    def describe_last_move(self) -> str:
        """Return when the position moved last, and which member has the topic partition."""
        if self.moved_ms is None:
            return "last move at an unknown time"
        parts = [f"{'last move' if self.moves else 'first commit, no move since'} {describe_time(self.moved_ms)}"]
        if self.stands_still and self.committed_ms is not None:
            is_repeated = self.committed_ms > self.moved_ms
            parts.append(
                f"committed again until {describe_time(self.committed_ms)}" if is_repeated else "no commit since"
            )
        if self.member is not None:
            parts.append(f"now assigned to {self.member[1].description}")
        return ", ".join(parts)

    def describe_rewound(self) -> str:
        """Return a sentence about a position that went back."""
        highest = f"{self.highest} ({name_record(self.partition, self.highest_record)})"
        now = f"{self.now} ({name_record(self.partition, self.record)})"
        parts = [f"{self.topic_partition}: highest position {highest}, now {now}"]
        twice = [
            f"{reread.start} to {reread.end - 1}"
            + (
                f" (if {name_record(self.partition, reread.record)} was not a late commit)"
                if reread.can_be_late
                else ""
            )
            for reread in self.twice[-MAX_RANGES:]
        ]
        more = len(self.twice) - len(twice)
        if twice:
            parts.append(f"read twice: {', '.join(twice)}{f' and {more} earlier ranges' if more else ''}")
        if self.remaining:
            parts.append(f"still to be read again: {self.now} to {self.highest - 1}")
        else:
            parts.append("the highest position is reached again")
        return f"{'; '.join(parts)}."

    def to_event(self) -> Event:
        """Return a position that stands still as an event, for JSON: its offset and time are those of the last move."""
        what = f"{self.topic_partition}: {self.now} stands still, {self.describe_last_move()}."
        return Event(
            *(self.partition, self.moved_record, self.moved_ms, "standing_still", what),
            topic_partition=self.topic_partition,
            to_offset=self.now,
            members=() if self.member is None else (self.member,),
        )


def sort_rewound(positions: Iterable[Position]) -> list[Position]:
    """Return the positions that went back; those with the most offsets that will be read again stand first."""
    rewound = [position for position in positions if position.rereads]
    return sorted(rewound, key=lambda position: (-position.remaining, position.topic_partition))


def finish_positions(
    positions: Iterable[Position], members: Mapping[TopicPartition, tuple[str, Member]]
) -> list[Position]:
    """Return the positions of one partition of the offsets topic, the oldest last move first.

    `members` are the members that have topic partitions. The members and the standstills of the positions are set.
    """
    ordered = sorted(positions, key=lambda each: (each.moved_ms or 0, each.topic_partition))
    # A tool that sets one offset does not show that the group moves on.
    newest_ms = max((each.forward_ms or 0 for each in ordered if each.moves >= MIN_MOVES), default=0)
    for position in ordered:
        position.member = members.get(position.topic_partition)
        if position.moved_ms is not None and position.moves >= MIN_MOVES:
            pause_ms = newest_ms - position.moved_ms
            position.stands_still = pause_ms >= max(MIN_STANDSTILL_MS, USUAL_PAUSES * position.longest_pause_ms)
    return ordered
