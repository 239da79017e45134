"""The last moves of a group's committed offsets: which positions stand still, and which members have them.

A position moves if a commit changes the offset. A consumer often commits the same offset again. Such a commit is no
move. A position that stands still can have no new records, or its consumer can be stuck at a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Event, Member
from kafkagroups.history.words import describe_time

MIN_STANDSTILL_MS = 5 * 60_000
"""The shortest standstill that is shown: the default of a consumer's max.poll.interval.ms."""
MIN_MOVES = 10
"""How often a position must have moved before its own pauses tell what is usual."""
USUAL_PAUSES = 3
"""A position stands still if it has not moved for this many times its longest pause."""


@dataclass
class Position:
    """A committed offset at the end of the log, and its last move.

    `partition` is the partition of the offsets topic. `record` and `moved_ms` are the commit that changed the offset
    last. `forward_ms` is the time of the last move forward, and `committed_ms` that of the newest commit.
    `longest_pause_ms` is the longest time between two moves. `member` is the member that has the topic partition; None
    if the log shows none. If `stands_still` is true, the group's other positions moved on.
    """

    topic_partition: TopicPartition
    partition: int | None
    offset: int
    record: int
    moved_ms: int | None
    committed_ms: int | None
    forward_ms: int | None = None
    moves: int = 0
    longest_pause_ms: int = 0
    member: tuple[str, Member] | None = None
    stands_still: bool = False

    def commit(self, offset: int, record: int, time_ms: int | None) -> None:
        """Add a commit."""
        self.committed_ms = time_ms
        if offset == self.offset:
            return
        if time_ms is not None and self.moved_ms is not None:
            self.longest_pause_ms = max(self.longest_pause_ms, time_ms - self.moved_ms)
        if offset > self.offset:
            self.forward_ms = time_ms
        self.offset = offset
        self.record = record
        self.moved_ms = time_ms
        self.moves += 1


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
        position.stands_still = _stands_still(position, newest_ms)
    return ordered


def _stands_still(position: Position, newest_ms: int) -> bool:
    if position.moved_ms is None or position.moves < MIN_MOVES:
        return False
    pause_ms = newest_ms - position.moved_ms
    return pause_ms >= max(MIN_STANDSTILL_MS, USUAL_PAUSES * position.longest_pause_ms)


def describe_position(position: Position) -> str:
    """Return a sentence about a position and its last move."""
    return f"{position.topic_partition}: {position.offset} ({_name_record(position)}), {describe_last_move(position)}."


def describe_last_move(position: Position) -> str:
    """Return when a position moved last, and which member has the topic partition."""
    if position.moved_ms is None:
        return "last move at an unknown time"
    word = "last move" if position.moves else "first commit, no move since"
    parts = [f"{word} {describe_time(position.moved_ms)}"]
    if position.stands_still and position.committed_ms is not None:
        is_repeated = position.committed_ms > position.moved_ms
        parts.append(
            f"committed again until {describe_time(position.committed_ms)}" if is_repeated else "no commit since"
        )
    if position.member is not None:
        parts.append(f"now assigned to {position.member[1].description}")
    return ", ".join(parts)


def _name_record(position: Position) -> str:
    return f"{position.record}" if position.partition is None else f"{position.partition}:{position.record}"


def standstill_event(position: Position) -> Event:
    """Return a position that stands still as an event, for JSON: its offset and its time are those of the last move."""
    what = f"{position.topic_partition}: {position.offset} stands still, {describe_last_move(position)}."
    return Event(
        position.partition,
        position.record,
        position.moved_ms,
        "standing_still",
        what,
        topic_partition=position.topic_partition,
        to_offset=position.offset,
        members=() if position.member is None else (position.member,),
    )
