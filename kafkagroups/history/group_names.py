"""Findings about the ids of groups: a new group for each run, and ids that look the same.

Some programs use a new group each time: the names of their groups differ only in a random or counted part. The cleaner
cannot remove the offsets of these groups, because each offset is the newest record of its key. They stay
until somebody deletes the group, or until offsets.retention.minutes have passed.

- `group_family`: at least MIN_GROUPS groups without members have the same name apart from the last part, and have more
  than half of the live records of all partitions, and at least MIN_OFFSETS offsets.

A group id that was copied from a web page can contain a non-breaking hyphen (U+2011) or another character that looks
like one on the keyboard. Kafka accepts it as another group.

- `look_alike_groups`: several groups have ids that are equal after `fold`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from unicodedata import category, name, normalize

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.history.event import list_names
from kafkagroups.history.finding import GROUPS_TOOL, Finding, join_words

FAMILY = "group_family"
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
        findings.append(Finding(partition, None, None, None, FAMILY, what, remedy, command))
    return findings


LOOK_ALIKE = "look_alike_groups"
_DASHES_OF_OTHER_CATEGORIES = "\u2043\u2212\u02d7\u00af"
"""Hyphen bullet, minus sign, modifier letter minus sign and macron. All other dashes have the category Pd."""
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)
_INVISIBLE = ("Cf", "Cc")
"""The categories of characters that a terminal or a web page does not show: format and control characters."""
_LETTER_CASE_ONLY = "They differ in upper and lower case."


def fold(group_id: str) -> str:
    r"""Return a text that is equal for group ids that look the same.

    Upper and lower case, compatibility forms, dashes and spaces are equal. Invisible characters, and spaces at the
    start and the end, are left out. An id without any visible character becomes "".

    >>> fold("shipping\u2011router") == fold("Shipping-Router ")
    True
    """
    if group_id.isascii() and group_id.isprintable():
        return group_id.lower().strip()
    folded = ""
    for character in normalize("NFKC", group_id).casefold():
        kind = category(character)
        if kind == "Pd" or character in _DASHES_OF_OTHER_CATEGORIES:
            folded += "-"
        elif kind == "Zs" or character in "\t\n\r":
            folded += " "
        elif kind not in _INVISIBLE and ord(character) not in _VARIATION_SELECTORS:
            folded += character
    return folded.strip()


def find_groups_of(number: int | None, parts: Mapping[str, GroupParts]) -> dict[str, int | None]:
    """Return the groups of the partition with this number. `parts` are the parts of all loaded groups."""
    return {group_id: number for group_id, group_parts in parts.items() if group_parts.group.partition == number}


def find_look_alikes(partition_of: Mapping[str, int | None]) -> list[Finding]:
    """Return a finding for each set of group ids that look the same.

    `partition_of` has the partition of each group that a broker knows after the load.
    """
    ids_by_look: dict[str, list[str]] = {}
    for group_id in partition_of:
        ids_by_look.setdefault(fold(group_id), []).append(group_id)
    sets = [group_ids for look, group_ids in ids_by_look.items() if look and len(group_ids) > 1]
    return [_describe(sorted(group_ids), partition_of) for group_ids in sets]


def _describe(group_ids: list[str], partition_of: Mapping[str, int | None]) -> Finding:
    partitions = [partition_of[group_id] for group_id in group_ids]
    places = ["in a partition without a number" if number is None else f"partition {number}" for number in partitions]
    names = [f"{group_id} ({place})" for group_id, place in zip(group_ids, places, strict=True)]
    differences = [line for group_id in group_ids if (line := _describe_unusual(group_id))]
    what = f"These group ids look the same but are different groups: {', '.join(names)}. "
    what += " ".join(differences) or _describe_plain(group_ids)
    remedy = (
        "See with kafkagroups timeline which group the consumers use, and what was done to the other one. Correct the "
        "page or the script that contains the wrong id. Before you repeat a command for the right group, stop its "
        "consumers. Delete the wrong group only when nobody needs its offsets."
    )
    partition = partitions[0] if len(set(partitions)) == 1 else None
    return Finding(partition, None, None, None, LOOK_ALIKE, what, remedy)


def _describe_unusual(group_id: str) -> str:
    """Return a sentence about the characters of an id that are not plain ASCII; "" if there are none."""
    unusual = [
        f"{_name_character(character)} at position {place}"
        for place, character in enumerate(group_id, start=1)
        if not (character.isascii() and character.isprintable())
    ]
    partly = "".join(character if character.isascii() and character.isprintable() else "…" for character in group_id)
    return f"The one that reads {partly} has {list_names(unusual)}." if unusual else ""


def _describe_plain(group_ids: Iterable[str]) -> str:
    """Return what is different about ids of plain characters."""
    spaces = [group_id for group_id in group_ids if group_id != group_id.strip()]
    if spaces:
        return f"{len(spaces)} of them begin or end with a space ({', '.join(map(repr, spaces))})."
    return _LETTER_CASE_ONLY


def _name_character(character: str) -> str:
    """Return the code point and the name of a character, for example "U+2011 NON-BREAKING HYPHEN"."""
    return f"U+{ord(character):04X} {name(character, '')}".rstrip()
