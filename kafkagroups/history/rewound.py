"""The positions of a group that went back: how far the group had been, where it is now, and what it reads twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.groups.offsets import TopicPartition


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

    def to_json(self) -> dict[str, Any]:
        return {"from": self.start, "to": self.end - 1, "record": self.record, "can_be_late": self.can_be_late}


@dataclass
class RewoundPosition:
    """The committed offsets of one topic partition, after the commits so far and since the last deletion.

    `partition` is the partition of the offsets topic. `highest` is the highest committed offset, and `highest_record`
    the first record that committed it. `now` and `record` are the newest one. `rereads` has an entry for each step
    back.
    """

    topic_partition: TopicPartition
    partition: int | None
    highest: int
    highest_record: int
    now: int
    record: int
    rereads: list[Reread] = field(default_factory=list)
    _before_step: int = 0
    """The committed offset right before the last step back."""

    def move(self, offset: int, record: int, *, is_by_member: bool) -> None:
        """Add a commit."""
        if offset < self.now:
            self.rereads.append(Reread(offset, self.highest, offset, record, is_by_member))
            self._before_step = self.now
        elif self.rereads:
            last = self.rereads[-1]
            is_next_commit = last.record == self.record
            if is_next_commit and offset < self._before_step:
                last.can_be_late = False
            last.end = max(last.end, min(offset, last.limit))
        if offset > self.highest:
            self.highest = offset
            self.highest_record = record
        self.now = offset
        self.record = record

    @property
    def twice(self) -> list[Reread]:
        """The ranges that the group has read again so far."""
        return [reread for reread in self.rereads if reread.end > reread.start]

    @property
    def remaining(self) -> int:
        """How many offsets the group will read again until it is at its highest position."""
        return max(0, self.highest - self.now)

    def to_json(self) -> dict[str, Any]:
        """Return the position as `explain --json` prints it."""
        return {
            "topic_partition": str(self.topic_partition),
            "partition": self.partition,
            "highest": self.highest,
            "highest_record": self.highest_record,
            "now": self.now,
            "record": self.record,
            "read_twice": [reread.to_json() for reread in self.twice],
            "still_to_read_again": {"from": self.now, "to": self.highest - 1} if self.remaining else None,
        }


def sort_rewound(positions: Iterable[RewoundPosition]) -> list[RewoundPosition]:
    """Return the positions for a list: those with the most offsets that will be read again stand first."""
    return sorted(positions, key=lambda position: (-position.remaining, position.topic_partition))


MAX_RANGES = 5
"""How many ranges that were read twice a sentence contains, the last ones."""


def describe_rewound(position: RewoundPosition) -> str:
    """Return a sentence about a position that went back."""

    def name(record: int) -> str:
        return f"{record}" if position.partition is None else f"{position.partition}:{record}"

    parts = [
        f"{position.topic_partition}: highest position {position.highest} ({name(position.highest_record)}), now "
        f"{position.now} ({name(position.record)})"
    ]
    twice = [
        f"{reread.start} to {reread.end - 1}"
        + (f" (if {name(reread.record)} was not a late commit)" if reread.can_be_late else "")
        for reread in position.twice[-MAX_RANGES:]
    ]
    more = len(position.twice) - len(twice)
    if twice:
        parts.append(f"read twice: {', '.join(twice)}{f' and {more} earlier ranges' if more else ''}")
    if position.remaining:
        parts.append(f"still to be read again: {position.now} to {position.highest - 1}")
    else:
        parts.append("the highest position is reached again")
    return f"{'; '.join(parts)}."
