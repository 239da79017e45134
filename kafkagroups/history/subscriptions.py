"""Changes of the topics to which the members of a group subscribe, as the group's records tell them."""

from __future__ import annotations

from collections.abc import Mapping

from kafkagroups.history.event import Member
from kafkagroups.history.words import list_names


def describe_changed(old: Mapping[str, Member], new: Mapping[str, Member]) -> list[str]:
    """Return what changed in the subscriptions of the members that `old` and `new` both contain."""
    texts = []
    for member_id, member in new.items():
        before = old.get(member_id)
        if before is None or before.topics is None or member.topics is None:
            continue
        parts = []
        if before.topics - member.topics:
            parts.append(f"no longer subscribes to {list_names(sorted(before.topics - member.topics))}")
        if member.topics - before.topics:
            parts.append(f"now subscribes to {list_names(sorted(member.topics - before.topics))}")
        if (before.pattern or None) != (member.pattern or None):
            parts.append(f"now subscribes to the pattern {member.pattern}" if member.pattern else "has no pattern")
        if parts:
            texts.append(f"{member.name} {' and '.join(parts)}")
    return texts


class Subscriptions:
    """The topics to which a group subscribes, and since when it no longer subscribes to others.

    `lost_at` has the topics that a member subscribed to before, and to which no present member subscribes. Its values
    are the offsets of the records since which this is so.
    """

    def __init__(self) -> None:
        self.lost_at: dict[str, int] = {}
        self._topics: frozenset[str] = frozenset()

    def update(
        self, members: Mapping[str, Member], patterns: Mapping[str, frozenset[str]], record_offset: int
    ) -> list[str]:
        """Set the members after a record. Return the topics to which no member subscribes any longer, sorted.

        If the group has no members, nothing changes until the next member joins. If a subscription is not readable, the
        group may subscribe to any topic.
        """
        if not members:
            return []
        topics: set[str] = set()
        for member in members.values():
            if member.topics is None:
                self.lost_at.clear()
                self._topics = frozenset()
                return []
            topics |= member.topics
            if member.pattern is not None:
                topics |= patterns.get(member.pattern, frozenset())
        lost = sorted(self._topics - topics)
        self.lost_at |= dict.fromkeys(lost, record_offset)
        for topic in topics:
            self.lost_at.pop(topic, None)
        self._topics = frozenset(topics)
        return lost
