"""Static members whose instance id gets a new member id again and again.

A static member is a member with a group.instance.id. After a restart, its process joins without a member id, and the
coordinator gives the instance id a new member id. Requests with the old member id get FENCED_INSTANCE_ID. If two
processes have the same instance id, each of them fences the other one, restarts, and joins again. While the group is
Stable, such a replacement writes the group's record again, without a new generation.

- `shared_instance_id`: an instance id got MIN_REPLACEMENTS new member ids within FAST_MS. Or it got as many within
  ALTERNATING_MS, and the records alternate between two settings. A rolling restart replaces each instance id once.

The settings of a record are the client id, the host, the timeouts and the rack of the member. When the coordinator
replaces a static member, it keeps the client id and the host of the old one. So they often do not tell the processes
apart. A group is examined in a record if the first member of the record is static.
Source: GroupMetadata.replaceStaticMember, GroupCoordinator.updateStaticMemberAndRebalance (3.9); ClassicGroup (4.3.1).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress, pairwise
from typing import NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.records.consumer_protocol import decode_subscription
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.serde import Record

MIN_REPLACEMENTS = 5
FAST_MS = 600_000
ALTERNATING_MS = 3_600_000
MIN_SWITCHES = 3
"""How often the settings must change so that they cannot be those of one process with new settings."""
SETTINGS_SHOWN = 4
Settings = tuple[str, ...]
"""What a member record tells about the process of the member: a text for each setting."""
_HOST = 1
"""The index of the host in Settings."""


class Replacement(NamedTuple):
    """An instance id has a new member id in the record with this offset and time (ms)."""

    offset: int
    timestamp_ms: int
    settings: Settings


@dataclass
class Series:
    """The replacements of an instance id, each within ALTERNATING_MS of the one before.

    `first` is the first one from which on they fulfil the rule; None if they do not. From there on, `settings` counts
    them by their settings, and `switches` how often the settings change.
    """

    newest: deque[Replacement] = field(default_factory=lambda: deque(maxlen=MIN_REPLACEMENTS))
    first: Replacement | None = None
    switches: int = 0
    settings: Counter[Settings] = field(default_factory=Counter)

    def add(self, replacement: Replacement) -> None:
        self.newest.append(replacement)
        if self.first is not None:
            self._count(self.newest[-2], replacement)
        elif len(self.newest) == MIN_REPLACEMENTS and _is_shared(self.newest):
            self.first = self.newest[0]
            for before, each in pairwise([self.first, *self.newest]):
                self._count(before, each)

    def _count(self, before: Replacement, replacement: Replacement) -> None:
        self.switches += before.settings != replacement.settings
        self.settings[replacement.settings] += 1


class StaticMembers(dict[tuple[str, str], list[Series]]):
    """The series of each group and instance id whose members were replaced. Memory follows the ids, not the records."""

    def add(self, offset: int, timestamp_ms: int, record: Record, indexes: Iterable[int]) -> None:
        """Note a record of a group. The members with these indexes have new ids."""
        assert isinstance(record.key, GroupMetadataKey) and isinstance(record.value, GroupMetadataValue)
        for index in indexes:
            member = record.value.members[index]
            series = self.setdefault((record.key.group, member.group_instance_id or ""), [])
            if not series or timestamp_ms - series[-1].newest[-1].timestamp_ms > ALTERNATING_MS:
                series[:] = [*(each for each in series if each.first is not None), Series()]
            series[-1].add(Replacement(offset, timestamp_ms, _read_settings(member)))


def _is_shared(series: Sequence[Replacement]) -> bool:
    """Return whether MIN_REPLACEMENTS replacements fulfil the rule."""
    span_ms = series[-1].timestamp_ms - series[0].timestamp_ms
    settings = [replacement.settings for replacement in series]
    alternates = len(set(settings)) == 2 and all(earlier != later for earlier, later in pairwise(settings))
    return span_ms <= FAST_MS or (span_ms <= ALTERNATING_MS and alternates)


def _read_settings(member: MemberMetadata) -> Settings:
    """Return the settings of a member. The rack is in the subscription, if the client sends it (KIP-881)."""
    rack = None
    with suppress(BadBytes):
        rack = decode_subscription(member.subscription).message.rack_id
    process = (f"client id {member.client_id}", f"host {member.client_host}")
    timeouts = (f"session timeout {member.session_timeout} ms", f"rebalance timeout {member.rebalance_timeout} ms")
    return (*process, *timeouts, f"rack {rack or 'none'}")


def describe_settings(series: Series) -> str:
    """Return what differs between the records, and what it means."""
    counts = series.settings
    if len(counts) == 1:
        return (
            "All these records have the same settings. Either two processes have this instance id and fence each "
            "other, or one process starts again and again."
        )
    different = [len(set(values)) > 1 for values in zip(*counts, strict=True)]
    lines = [f"{', '.join(compress(settings, different))} ({count} times)" for settings, count in counts.items()]
    meaning = "Two processes have this instance id and fence each other. " if series.switches >= MIN_SWITCHES else ""
    more = "; …" if len(lines) > SETTINGS_SHOWN else ""
    text = f"{meaning}The records have different settings: {'; '.join(lines[:SETTINGS_SHOWN])}{more}."
    if not different[_HOST]:
        host = series.newest[-1].settings[_HOST].removeprefix("host ").removeprefix("/")
        text += f" The host is always {host}, because Kafka keeps the host of a member that it replaces."
    return text
