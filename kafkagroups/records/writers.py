"""Which value version a broker of which Kafka writes; anatomy/written_by.py is the reverse.

One table says both: writer_versions.json. A broker that is set to an older inter.broker.protocol.version (up to 3.9
brokers could be) writes as that Kafka did, so "2.0" here is a 2.0 broker or a newer one that was told to be one.
Nobody writes version 4 of a group.
Source: the writers of nine versions, run (0.8.2.2 to 4.3.1).
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from kafkagroups.errors import UsageError
from kafkagroups.records.fields import kafka_version

Version = tuple[int, ...]
FOREVER: Version = (2**31,)


class Range(NamedTuple):
    """Kafka versions from `since` on, below `until`."""

    since: Version
    until: Version

    def __contains__(self, version: object) -> bool:
        return isinstance(version, tuple) and self.since <= version < self.until

    def meet(self, other: Range) -> Range:
        """What both allow; empty (since >= until) when nothing is left."""
        return Range(max(self.since, other.since), min(self.until, other.until))


class Rule(NamedTuple):
    type: int
    version: int
    range: Range
    expires: bool | None


@cache
def table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(files("kafkagroups.records").joinpath("writer_versions.json").read_text())
    return table


@cache
def rules() -> tuple[Rule, ...]:
    return tuple(
        Rule(row["type"], row["version"], Range(_version(row["since"]), _version(row["until"])), row.get("expires"))
        for row in table()["values"]
    )


def _version(text: str | None) -> Version:
    """A Kafka version; 2.1-IV0 is the one step on the way to a release (2.1) that wrote something of its own."""
    if text is None:
        return FOREVER
    return (2, 0, 2**30) if text == "2.1-IV0" else kafka_version(text)


def value_version(record_type: int, kafka: str, *, expires: bool = False) -> int:
    """The value version that a broker of that Kafka writes for a record type.

    `expires`: the client asked for a retention time (OffsetCommit v2 to v4). "2.1-IV0" is the step before 2.1.
    UsageError when that Kafka writes no such record.

    >>> value_version(1, "2.8.2"), value_version(1, "2.8.2", expires=True), value_version(1, "4.1.0")
    (3, 1, 4)
    """
    version = _version(kafka)
    found = [rule for rule in rules() if rule.type == record_type and version in rule.range]
    chosen = [rule for rule in found if rule.expires and expires] or [rule for rule in found if not rule.expires]
    if not chosen:
        raise UsageError(f"Kafka {kafka} writes no record of type {record_type}")
    return chosen[0].version
