"""The findings about static members whose instance id gets a new member id again and again.

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

A timeline shows the repeated new ids of an instance id as one event.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.history.event import Event, describe_time
from kafkagroups.history.finding import Finding
from kafkagroups.records.consumer_protocol import decode_subscription
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.serde import decode

KIND = "shared_instance_id"
MIN_REPLACEMENTS = 5
FAST_MS = 600_000
ALTERNATING_MS = 3_600_000
MIN_SWITCHES = 3
"""How often the settings must change so that they cannot be those of one process with new settings."""
SETTINGS_SHOWN = 4
_MAX_SETTINGS = 20
"""How many different settings of an instance id are counted."""


class Settings(NamedTuple):
    """What a member record tells about the process of the member. The timeouts are in ms. `rack`: None if unknown."""

    client_id: str
    host: str
    session_timeout: int
    rebalance_timeout: int
    rack: str | None


_LABELS = ("client id", "host", "session timeout", "rebalance timeout", "rack")
"""The fields of Settings in a sentence."""
_TIMEOUTS = _LABELS[2:4]


class Replacement(NamedTuple):
    """A record in which an instance id has a new member id. `timestamp_ms` is the time of the record."""

    offset: int
    timestamp_ms: int
    settings: Settings


@dataclass
class _Series:
    """Replacements of one instance id, each within ALTERNATING_MS of the one before.

    `recent` has the last MIN_REPLACEMENTS of them. `first` is set when they fulfil the rule. From then on, `count`,
    `switches` and `settings` count: all replacements, those with other settings than the one before, and each setting.
    """

    recent: deque[Replacement] = field(default_factory=lambda: deque(maxlen=MIN_REPLACEMENTS))
    first: Replacement | None = None
    count: int = 0
    switches: int = 0
    settings: Counter[Settings] = field(default_factory=Counter)

    def add(self, replacement: Replacement) -> None:
        is_switch = bool(self.recent) and self.recent[-1].settings != replacement.settings
        self.recent.append(replacement)
        if self.first is not None:
            self.switches += is_switch
            self._count([replacement])
        elif len(self.recent) == MIN_REPLACEMENTS and (self._is_fast() or self._alternates()):
            self.first = self.recent[0]
            self.switches = sum(later.settings != earlier.settings for earlier, later in pairwise(self.recent))
            self._count(self.recent)

    def _count(self, replacements: deque[Replacement] | list[Replacement]) -> None:
        self.count += len(replacements)
        for replacement in replacements:
            if replacement.settings in self.settings or len(self.settings) < _MAX_SETTINGS:
                self.settings[replacement.settings] += 1

    def _is_fast(self) -> bool:
        return self.recent[-1].timestamp_ms - self.recent[0].timestamp_ms <= FAST_MS

    def _alternates(self) -> bool:
        settings = [replacement.settings for replacement in self.recent]
        is_alternating = len(set(settings)) == 2 and settings[::2] == [settings[0]] * len(settings[::2])
        has_time = self.recent[-1].timestamp_ms - self.recent[0].timestamp_ms <= ALTERNATING_MS
        return has_time and is_alternating and settings[1::2] == [settings[1]] * len(settings[1::2])


class StaticMembers:
    """Follows the static members of the classic groups in one log. Add the group records in order."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._members: dict[bytes, dict[str, str]] = {}
        """The member id of each instance id in the newest record of a group, by the key of the record."""
        self._series: dict[tuple[bytes, str], _Series] = {}
        self._ended: list[tuple[bytes, str, _Series]] = []
        """The series that fulfilled the rule and have ended."""

    def add(self, offset: int, timestamp_ms: int, key: bytes, value: bytes | None) -> None:
        """Add the next record of type 2."""
        try:
            content = decode(key, value, self._dialect).value
        except BadBytes:
            return
        members = content.members if isinstance(content, GroupMetadataValue) else []
        if not members or members[0].group_instance_id is None:
            self._members.pop(key, None)
            return
        known = self._members.get(key, {})
        member_ids = {}
        for member in members:
            instance_id = member.group_instance_id
            if instance_id is None:
                continue
            member_ids[instance_id] = member.member_id
            if known.get(instance_id, member.member_id) != member.member_id:
                self._add_replacement(key, instance_id, Replacement(offset, timestamp_ms, read_settings(member)))
        self._members[key] = member_ids

    def add_replaced(self, offset: int, timestamp_ms: int, key: bytes, value: bytes, indexes: list[int]) -> None:
        """Add a record in which the members with these indexes have new member ids. Records between may be left out."""
        content = decode(key, value, self._dialect).value
        assert isinstance(content, GroupMetadataValue)
        for member in (content.members[index] for index in indexes):
            replacement = Replacement(offset, timestamp_ms, read_settings(member))
            self._add_replacement(key, member.group_instance_id or "", replacement)

    def _add_replacement(self, key: bytes, instance_id: str, replacement: Replacement) -> None:
        series = self._series.get((key, instance_id))
        if series is None or replacement.timestamp_ms - series.recent[-1].timestamp_ms > ALTERNATING_MS:
            if series is not None and series.first is not None:
                self._ended.append((key, instance_id, series))
            series = _Series()
            self._series[key, instance_id] = series
        series.add(replacement)

    def find(self, partition: int | None) -> list[Finding]:
        """Return a finding for each instance id that was replaced again and again. `partition` is that of the log."""
        running = [(key, instance_id, series) for (key, instance_id), series in self._series.items() if series.first]
        findings = []
        for key, instance_id, series in [*self._ended, *running]:
            group_key = decode(key, None, self._dialect).key
            if isinstance(group_key, GroupMetadataKey):
                findings.append(_describe(partition, group_key.group, instance_id, series))
        return findings


def read_settings(member: MemberMetadata) -> Settings:
    """Return the settings of a member. The rack is in the subscription, if the client sends it (KIP-881)."""
    rack = None
    try:
        rack = decode_subscription(member.subscription).message.rack_id
    except BadBytes:
        rack = None
    return Settings(
        member.client_id, member.client_host, member.session_timeout, member.rebalance_timeout, rack or None
    )


def _describe(partition: int | None, group: str, instance_id: str, series: _Series) -> Finding:
    assert series.first is not None
    last = series.recent[-1]
    what = (
        f"Static member {instance_id} of group {group} got a new member id {series.count} times, from offset "
        f"{series.first.offset} ({describe_time(series.first.timestamp_ms)}) to offset {last.offset} "
        f"({describe_time(last.timestamp_ms)}). {_describe_settings(series)}"
    )
    remedy = (
        f"Find every process with group.instance.id={instance_id}, stop the one that does not belong to the group, "
        "and give each process its own id. Then look for records that both processes have handled."
    )
    return Finding(partition, series.first.offset, group, None, KIND, what, remedy)


def _describe_settings(series: _Series) -> str:
    """Return what differs between the records, and what it means."""
    settings = list(series.settings)
    lines = [
        f"{text} ({series.settings[found]} times)" for found, text in zip(settings, _list_texts(settings), strict=True)
    ]
    if len(settings) == 1:
        return (
            "All these records have the same settings. Either two processes have this instance id and fence each "
            "other, or one process starts again and again."
        )
    has_two = series.switches >= MIN_SWITCHES
    meaning = "Two processes have this instance id and fence each other. " if has_two else ""
    more = "; …" if len(lines) > SETTINGS_SHOWN else ""
    text = f"{meaning}The records have different settings: {'; '.join(lines[:SETTINGS_SHOWN])}{more}."
    hosts = {found.host.removeprefix("/") for found in settings}
    if len(hosts) == 1:
        text += f" The host is always {hosts.pop()}, because Kafka keeps the host of a member that it replaces."
    return text


def _list_texts(settings: list[Settings]) -> Iterator[str]:
    """Yield a text for each of the settings: the fields that are not the same in all of them."""
    different = [number for number in range(len(_LABELS)) if len({found[number] for found in settings}) > 1]
    for found in settings:
        values = []
        for number in different:
            value = "none" if found[number] is None else found[number]
            unit = " ms" if _LABELS[number] in _TIMEOUTS else ""
            values.append(f"{_LABELS[number]} {value}{unit}")
        yield ", ".join(values)


MIN_FOLDED = 2
"""The smallest number of further new ids that stand in one line."""


def fold_replacements(events: list[Event]) -> list[Event]:
    """Return the events of one or more partitions with one event for repeated new ids of a static member.

    In consecutive events about new ids, the first event of each static member stays, and one event follows that sums up
    the others.
    """
    folded: list[Event] = []
    for has_replaced, run in groupby(events, key=lambda event: bool(event.replaced_instances)):
        same_kind = list(run)
        folded += _fold_run(same_kind) if has_replaced else same_kind
    return folded


def _fold_run(run: list[Event]) -> Iterator[Event]:
    by_instances: dict[tuple[int | None, tuple[str, ...]], list[Event]] = {}
    for event in run:
        by_instances.setdefault((event.partition, event.replaced_instances), []).append(event)
    for event in run:
        same = by_instances[event.partition, event.replaced_instances]
        if len(same) <= MIN_FOLDED or event is same[0]:
            yield event
        elif event is same[1]:
            yield replace(event, what=_describe_repeated(same))


def _describe_repeated(same: list[Event]) -> str:
    """Return a sentence about all events except the first one."""
    last = same[-1]
    place = f"{last.offset}" if last.partition is None else f"{last.partition}:{last.offset}"
    until = "" if last.timestamp_ms is None else f" until {describe_time(last.timestamp_ms)}"
    changes = sum(_get_settings(before) != _get_settings(after) for before, after in pairwise(same))
    count = len(same) - 1
    if changes == count:
        settings = ", each with other settings than the one before"
    else:
        settings = f", {changes} of them with other settings than the one before" if changes else ""
    names = ", ".join(last.replaced_instances)
    return f"static member {names}: {count} more new ids{until} ({place}){settings}. --all shows each."


def _get_settings(event: Event) -> list[dict[str, object]]:
    return [member.settings for _, member in event.members]
