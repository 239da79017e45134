"""Dialects: which records a group coordinator reads, by Kafka version.

Kafka has two group coordinators: the classic one (Scala, up to 3.9) and the new one (Java, from 3.7 on, until 3.9 as a
preview). A dialect is the reading rules of one coordinator and one Kafka version.

The table shows which record types and value versions the coordinators read. Each line begins with the first Kafka
version that has a change ("0": all versions before 0.9), and what it does not mention is as in the line above. "offset
values 0-1" means that the coordinator reads offset records (types 0 and 1) with value versions 0 and 1. "group values"
are the value versions of group records (type 2):

    classic  0     offset values 0                        type 0; other types are refused
             0.9   offset values 0-1, group values 0      types 0-2; other types are refused
             0.10.1                   group values 0-1
             2.1   offset values 0-3, group values 0-2
             2.3                      group values 0-3
             3.4                      group values 0-4
             3.4.1 offset values 0-4                      other types are skipped
    new      3.7   offset values 0-4, group values 0-4    types 0-8; other types are skipped;
                                                          an unknown value version is read like the nearest known one
             4.0                                          types 0-16; an unknown value version is refused
             4.1   type 0: only value version 0           types 0-8, 10-17 and 19-23
                   type 1: the topic id (tag 0) is read

`READ_TYPES` lists the versions that read each record type above 2. refusals.py lists the records that the new
coordinator refuses only in some releases.
Source: GroupMetadataManager.scala (tags 0.9.0.1 to 3.9); GroupCoordinatorRecordSerde.java; records of captured brokers;
records that Kafka's own code of nine versions (0.8.2.2 to 4.3.1) wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, cast

from kafkagroups.errors import UsageError
from kafkagroups.records.versions import (
    FIRST_WITH_NEW_COORDINATOR,
    FIRST_WITHOUT_CLASSIC_COORDINATOR,
    SINCE_3_7,
    SINCE_4_0,
    SINCE_4_1,
    VERSION_2_1_IV0,
    Version,
    VersionRange,
    parse_newest_patch,
    parse_release,
)

Coordinator = Literal["classic", "new"]

DEFAULT_KAFKA: dict[Coordinator, str] = {"classic": "3.9.2", "new": "4.3.1"}

CHECKED_VERSIONS: dict[Coordinator, tuple[str, ...]] = {
    "classic": ("0.8.2.2", "0.9.0.1", "0.10.2.2", "1.0.1", "2.3.1", "2.8.2", "3.9.2"),
    "new": (
        "3.9.2",
        "4.0.0",
        "4.0.1",
        "4.0.2",
        "4.1.0",
        "4.1.1",
        "4.1.2",
        "4.2.0",
        "4.2.1",
        "4.2.2",
        "4.3.0",
        "4.3.1",
        "4.4.0",
    ),
}

CLASSIC_CHANGES: tuple[Version, ...] = (
    (0, 9),
    (0, 10, 1),
    (1, 0, 1),
    (2, 0, 1),
    (2, 1),
    (2, 3),
    (2, 7),
    (3, 0),
    (3, 4),
    (3, 4, 1),
)


READ_TYPES: dict[int, VersionRange] = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8), SINCE_3_7),  # Consumer groups.
    16: SINCE_4_0,  # Consumer groups: a regular expression.
    9: VersionRange((4, 0), (4, 1)),  # Share groups: the topics. Read by 4.0, but not by 4.1.
    **dict.fromkeys((10, 11, 12, 13, 14, 15), SINCE_4_0),  # Share groups.
    **dict.fromkeys((17, 19, 20, 21, 22, 23), SINCE_4_1),  # Streams groups.
}
"""For each record type above 2, the Kafka versions whose new coordinator reads it."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The rules by which one coordinator of one Kafka version reads records.

    `version` is the Kafka version as numbers, for the classic coordinator at most (3, 9), and decides which fields are
    read. With `reads_unknown_versions`, the coordinator reads a value of an unknown version like a value of the nearest
    known version. `rules_of` is None if `kafka` is in `CHECKED_VERSIONS`, and otherwise the nearest of these versions
    that has the same rules. If there is none, it is `kafka`, and the rules come only from Kafka's source.
    """

    coordinator: Coordinator
    kafka: str
    version: Version
    max_offset_value_version: int
    max_group_value_version: int
    max_type0_value_version: int
    skips_unknown_types: bool
    reads_unknown_versions: bool = False
    rules_of: str | None = None

    def __hash__(self) -> int:
        # The coordinator and the version decide all other rules. The hash is computed for each key of a log.
        return hash((self.coordinator, self.kafka))

    def since(self, *version: int) -> bool:
        """Return whether the coordinator has a rule that the classic coordinator has since `version`.

        The new coordinator has all rules that were added to the classic coordinator.
        """
        return self.coordinator == "new" or self.version >= version


def dialect(coordinator: str = "new", kafka: str | None = None) -> Dialect:
    """Return the reading rules of a coordinator, "classic" or "new".

    `kafka` is a Kafka version, such as "4.3.1"; "4.3" means the newest patch release of 4.3, and None means 3.9.2 for
    the classic coordinator and 4.3.1 for the new one. A version that is newer than all known ones gets the rules of the
    nearest one (`Dialect.rules_of`). Raises UsageError if the coordinator or the version does not exist, or if the
    version does not have this coordinator.

    >>> dialect("classic", "2.8.2").max_group_value_version
    3
    """
    if coordinator not in ("classic", "new"):
        raise UsageError(f'the coordinator is "classic" or "new", not {coordinator!r}')
    known_coordinator = cast(Coordinator, coordinator)
    text = DEFAULT_KAFKA[known_coordinator] if kafka is None else kafka
    version = parse_newest_patch(text)
    if known_coordinator == "classic" and version >= FIRST_WITHOUT_CLASSIC_COORDINATOR:
        raise UsageError(f"Kafka {text} has no classic coordinator; the last version with it is 3.9.2")
    if known_coordinator == "new" and version < FIRST_WITH_NEW_COORDINATOR:
        raise UsageError(f"Kafka {text} has no new coordinator; the first version with it is 3.7")
    built = build_dialect(known_coordinator, version, text)
    is_preview = known_coordinator == "new" and version < FIRST_WITHOUT_CLASSIC_COORDINATOR
    return replace(built, reads_unknown_versions=is_preview, rules_of=_find_rules_of(known_coordinator, version))


@cache
def _find_rules_of(coordinator: Coordinator, version: Version) -> str | None:
    text_by_version = {parse_release(text): text for text in CHECKED_VERSIONS[coordinator]}
    if version in text_by_version:
        return None
    older = max((checked for checked in text_by_version if checked < version), default=version)
    newer = min((checked for checked in text_by_version if checked > version), default=version)
    changes = CLASSIC_CHANGES if coordinator == "classic" else ()
    for checked in (older, newer):
        first, last = sorted((checked, version))
        if checked != version and not any(first < change <= last for change in changes):
            return text_by_version[checked]
    return ".".join(map(str, version))


def build_dialect(coordinator: Coordinator, version: Version, kafka: str) -> Dialect:
    """Return the reading rules of a version, even if this version does not have the coordinator, as Kafka's own tools
    of 3.8 and 3.9 read records.
    """
    if coordinator == "new":
        return Dialect(
            coordinator="new",
            kafka=kafka,
            version=version,
            max_offset_value_version=4,
            max_group_value_version=4,
            max_type0_value_version=0 if version >= (4, 1) else 4,
            skips_unknown_types=True,
        )
    max_offset_value_version = _find_max_value_version(
        version, {(3, 4, 1): 4, (2, 1): 3, VERSION_2_1_IV0: 2, (0, 9): 1, (0,): 0}
    )
    max_group_value_version = _find_max_value_version(
        version, {(3, 4): 4, (2, 3): 3, VERSION_2_1_IV0: 2, (0, 10, 1): 1, (0, 9): 0, (0,): -1}
    )
    return Dialect(
        coordinator="classic",
        kafka=kafka,
        # The classic coordinator never reads tag 0 (the topic id) of an offset value, even if `version` is above 3.9.
        version=min(version, (3, 9)),
        max_offset_value_version=max_offset_value_version,
        max_group_value_version=max_group_value_version,
        max_type0_value_version=max_offset_value_version,
        skips_unknown_types=version >= (3, 4, 1),
    )


def _find_max_value_version(version: Version, max_by_first_version: dict[Version, int]) -> int:
    return next(value_version for first, value_version in max_by_first_version.items() if version >= first)


DEFAULT_DIALECT = dialect()
"""The reading rules of Kafka 4.3.1's new coordinator."""
