"""Groups whose names differ only in a random or counted part, as programs create them that use a new group each time.

The cleaner cannot remove the offsets of these groups, because each offset is the newest record of its key. They stay
until somebody deletes the group, or until offsets.retention.minutes have passed.

- `group_family`: at least MIN_GROUPS groups without members have the same name apart from the last part, and have more
  than half of the live records of all partitions, and at least MIN_OFFSETS offsets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.history.finding import GROUPS_TOOL, Finding, join_words

KIND = "group_family"
MIN_GROUPS = 20
MIN_OFFSETS = 1000
_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_TAIL = re.compile(f"(?:^|[-_.:/@#])(?:{_UUID}|[0-9a-fA-F]{{6,}})$|[0-9]+$")
"""The part of a name that differs: a UUID or hexadecimal digits after a separator, or decimal digits."""


@dataclass
class Family:
    """The number of the groups of a family that have no members, and of their committed offsets."""

    groups: int = 0
    offsets: int = 0

    def add(self, other: Family) -> None:
        self.groups += other.groups
        self.offsets += other.offsets


def find_prefix(group_id: str) -> str | None:
    """Return what the names of the group's family begin with. Return None if the name has no part that differs.

    >>> find_prefix("e2e-checkout-0002c71b578f"), find_prefix("tenant17"), find_prefix("billing")
    ('e2e-checkout-', 'tenant', None)
    """
    found = _TAIL.search(group_id)
    if found is None:
        return None
    tail = found[0]
    return group_id[: len(group_id) - len(tail.lstrip("-_.:/@#"))]


def count_families(number: int | None, parts: Mapping[str, GroupParts]) -> dict[str, Family]:
    """Return the families by what their names begin with. `parts` are the parts of all loaded groups.

    Only the groups of the partition with this number are counted.
    """
    families: dict[str, Family] = {}
    for group_id, group_parts in parts.items():
        prefix = find_prefix(group_id) if group_parts.group.partition == number and group_parts.offsets else None
        if prefix is not None and not group_parts.decode_group().members:
            families.setdefault(prefix, Family()).add(Family(1, len(group_parts.offsets)))
    return families


def choose_large(families: Mapping[str, Family], live_records: int) -> dict[str, Family]:
    """Return the families that are a finding. `live_records` is the number of live records in all partitions."""
    return {
        prefix: family
        for prefix, family in families.items()
        if family.groups >= MIN_GROUPS and family.offsets >= MIN_OFFSETS and 2 * family.offsets > live_records
    }


def name_family(prefix: str, group_count: int) -> str:
    """Return the name of a family in a table.

    >>> name_family("e2e-checkout-", 7000)
    'e2e-checkout-… (7000)'
    """
    return f"{prefix}… ({group_count})"


def describe_families(families: Mapping[str, Family], live_records: int, partition: int | None) -> list[Finding]:
    """Return the findings about the large families. `partition` is the only partition; None if there are several."""
    findings = []
    command = [*GROUPS_TOOL, "--delete", "--group", "GROUP"]
    for prefix, family in sorted(choose_large(families, live_records).items()):
        percent = 100 * family.offsets // live_records
        what = (
            f"{family.groups} groups named {prefix}… have no members. They hold {family.offsets} of {live_records} "
            f"live records ({percent} %). The cleaner cannot remove live records."
        )
        remedy = (
            "Give the program that creates these groups one fixed group id, or let it delete its group at its end. A "
            "shorter offsets.retention.minutes removes them, too, but it applies to all groups. Then delete the old "
            "groups. At first the log grows, because each deleted offset gets a tombstone. The size falls when the "
            f"cleaner has passed over these tombstones, and once more after delete.retention.ms: {join_words(command)}"
        )
        findings.append(Finding(partition, None, None, None, KIND, what, remedy, command))
    return findings
