"""The finding about group ids that look the same but are different.

A group id that was copied from a web page can contain a non-breaking hyphen (U+2011) or another character that looks
like one on the keyboard. Kafka accepts it as another group.

- `look_alike_groups`: several groups have ids that are equal after `fold`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from unicodedata import category, name, normalize

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.history.event import list_names
from kafkagroups.history.finding import Finding

KIND = "look_alike_groups"
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
    return Finding(partition, None, None, None, KIND, what, remedy)


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
