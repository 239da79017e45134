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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from kafkagroups.errors import BadBytes
from kafkagroups.history.finding import Finding
from kafkagroups.history.rule import Rule
from kafkagroups.history.words import describe_time
from kafkagroups.records.consumer_protocol import decode_subscription
from kafkagroups.records.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kafkagroups.records.serde import decode

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


class SharedInstanceIds(Rule):
    def find(self) -> Iterator[Finding]:
        dialect = self.partition.dialect
        replaced: dict[tuple[bytes, str], list[Replacement]] = {}
        for record in self.partition.totals.replaced:
            value = decode(record.key, record.value, dialect).value
            assert isinstance(value, GroupMetadataValue)
            for member in (value.members[index] for index in record.indexes):
                replacement = Replacement(record.offset, record.timestamp_ms, _read_settings(member))
                replaced.setdefault((record.key, member.group_instance_id or ""), []).append(replacement)
        for (key, instance_id), replacements in replaced.items():
            group_key = decode(key, None, dialect).key
            assert isinstance(group_key, GroupMetadataKey)
            for series in _split(replacements):
                starts = range(len(series) - MIN_REPLACEMENTS + 1)
                start = next((each for each in starts if _is_shared(series[each : each + MIN_REPLACEMENTS])), None)
                if start is not None:
                    yield self._describe(group_key.group, instance_id, series[start:])

    def _describe(self, group: str, instance_id: str, series: Sequence[Replacement]) -> Finding:
        first = series[0]
        last = series[-1]
        what = (
            f"Static member {instance_id} of group {group} got a new member id {len(series)} times, from offset "
            f"{first.offset} ({describe_time(first.timestamp_ms)}) to offset {last.offset} "
            f"({describe_time(last.timestamp_ms)}). {_describe_settings([each.settings for each in series])}"
        )
        remedy = (
            f"Find every process with group.instance.id={instance_id}, stop the one that does not belong to the group, "
            "and give each process its own id. Then look for records that both processes have handled."
        )
        return self.finding(first.offset, "shared_instance_id", what, remedy, group=group)


def _split(replacements: Sequence[Replacement]) -> Iterator[list[Replacement]]:
    """Yield the series of an instance id: replacements that are each within ALTERNATING_MS of the one before."""
    series: list[Replacement] = []
    for replacement in replacements:
        if series and replacement.timestamp_ms - series[-1].timestamp_ms > ALTERNATING_MS:
            yield series
            series = []
        series.append(replacement)
    yield series


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
    return Settings(
        member.client_id, member.client_host, member.session_timeout, member.rebalance_timeout, rack or None
    )


def _describe_settings(series: Sequence[Settings]) -> str:
    """Return what differs between the records, and what it means."""
    settings = list(dict.fromkeys(series))[:_MAX_SETTINGS]
    if len(settings) == 1:
        return (
            "All these records have the same settings. Either two processes have this instance id and fence each "
            "other, or one process starts again and again."
        )
    counts = Counter(series)
    lines = [f"{text} ({counts[found]} times)" for found, text in zip(settings, _list_texts(settings), strict=True)]
    has_two = sum(earlier != later for earlier, later in pairwise(series)) >= MIN_SWITCHES
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
