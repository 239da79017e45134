"""Kafka's releases: which exist, which records their group coordinators read (dialects), and which ones they refuse.

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

A feature release, such as 4.3, has several patch releases, such as 4.3.0 and 4.3.1. `READ_TYPES` lists the versions
that read each record type above 2. `REFUSALS` are records whose bytes can be decoded, but that fail a load in some
releases of the new coordinator. Many of them are Kafka bugs with an issue number, and docs/releases.md shows all as a
table.
Source: GroupMetadataManager.scala (tags 0.9.0.1 to 3.9); GroupCoordinatorRecordSerde.java; records of captured brokers;
records that Kafka's own code of nine versions (0.8.2.2 to 4.3.1) wrote; GroupMetadataManager.replay and onLoaded of
3.9.2 to 4.4.0, run with random records (tests/releases).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import Literal, NamedTuple, cast

from kafkagroups.errors import UsageError

Version = tuple[int, ...]
"""A Kafka version as numbers: (3, 9, 2)."""
AFTER_ALL_VERSIONS: Version = (2**31,)
"""A version above every Kafka version."""

NEWEST_PATCHES = {
    "0.8.2": 2,
    "0.9.0": 1,
    "0.10.0": 1,
    "0.10.1": 1,
    "0.10.2": 2,
    "0.11.0": 3,
    "1.0": 2,
    "1.1": 1,
    "2.0": 1,
    "2.1": 1,
    "2.2": 2,
    "2.3": 1,
    "2.4": 1,
    "2.5": 1,
    "2.6": 3,
    "2.7": 2,
    "2.8": 2,
    "3.0": 2,
    "3.1": 2,
    "3.2": 3,
    "3.3": 2,
    "3.4": 1,
    "3.5": 2,
    "3.6": 2,
    "3.7": 2,
    "3.8": 1,
    "3.9": 2,
    "4.0": 2,
    "4.1": 2,
    "4.2": 2,
    "4.3": 1,
    "4.4": 0,
}
"""The number of the newest patch release of every feature release. "4.3": 1 means that 4.3.0 and 4.3.1 exist."""

SHORT_NAMES = {"0.9": "0.9.0", "0.11": "0.11.0"}

FIRST_WITH_NEW_COORDINATOR: Version = (3, 7)
FIRST_WITHOUT_CLASSIC_COORDINATOR: Version = (4, 0)

_NUMBERS = re.compile(r"(0|[1-9]\d{0,3})(\.(0|[1-9]\d{0,3})){1,3}")
_NEWEST_FEATURE: Version = (4, 4)

VERSION_2_1_IV0: Version = (2, 0, 2**30)
"""2.1-IV0: a development version of Kafka, after every 2.0 release and before 2.1.

The broker setting inter.broker.protocol.version decides in which layouts a broker writes the values of records. Only
2.1-IV0 has a combination of layouts that no release has.
"""


def parse_release(text: str) -> Version:
    """Return the version of a release or feature release: "3.9.2" gives (3, 9, 2), and "4.3" gives (4, 3).

    A release that is newer than all that this package knows is accepted, because it can exist by now. Raises UsageError
    if Kafka cannot have a release with this name.
    """
    if not isinstance(text, str):
        raise UsageError(f'a Kafka release is a text such as "4.3.1", not {text!r}')
    feature, _, patch = text.rpartition(".")
    is_patch = patch in map(str, range(NEWEST_PATCHES.get(feature, -1) + 1))
    if is_patch or SHORT_NAMES.get(text, text) in NEWEST_PATCHES or is_newer(text):
        return _parse_numbers(text)
    raise UsageError(f"{text!r} is not a Kafka release; expected one from 0.8.2.0 to 4.4.0, such as 3.9.2 or 4.3")


def is_newer(text: str) -> bool:
    if not _NUMBERS.fullmatch(text):
        return False
    feature, _, patch = text.rpartition(".")
    if feature in NEWEST_PATCHES:
        return int(patch) > NEWEST_PATCHES[feature]
    version = _parse_numbers(text)
    return len(version) <= 3 and version[:2] > _NEWEST_FEATURE


def _parse_numbers(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def parse_newest_patch(text: str) -> Version:
    """Return the version of a release, or of the newest patch release of a feature release.

    Raises UsageError if Kafka has no release with this name.
    """
    version = parse_release(text)
    feature = SHORT_NAMES.get(text, text)
    if feature in NEWEST_PATCHES:
        return (*_parse_numbers(feature), NEWEST_PATCHES[feature])
    return version


@cache
def feature_releases() -> dict[str, Version]:
    short_name_by_name = {name: short_name for short_name, name in SHORT_NAMES.items()}
    shortest_names = [short_name_by_name.get(name, name) for name in NEWEST_PATCHES]
    return {name: _parse_numbers(name) for name in shortest_names}


class VersionRange(NamedTuple):
    """The Kafka versions from `since` up to, not including, `until`."""

    since: Version
    until: Version = AFTER_ALL_VERSIONS

    def __contains__(self, version: object) -> bool:
        return isinstance(version, tuple) and self.since <= version < self.until

    def intersect(self, other: VersionRange) -> VersionRange:
        return VersionRange(max(self.since, other.since), min(self.until, other.until))

    def is_empty(self) -> bool:
        return self.since >= self.until

    @classmethod
    def common_to(cls, ranges: Iterable[VersionRange]) -> VersionRange:
        return reduce(cls.intersect, ranges, EVERY_VERSION)


EVERY_VERSION = VersionRange((0,))
SINCE_3_7 = VersionRange(FIRST_WITH_NEW_COORDINATOR)
SINCE_4_0 = VersionRange(FIRST_WITHOUT_CLASSIC_COORDINATOR)
SINCE_4_1 = VersionRange((4, 1))


REFUSALS: list[Refusal] = []
"""All refusals of a load, in the order of the table in docs/releases.md."""


class Refusal(NamedTuple):
    """A kind of record that some coordinators refuse, so that a load fails.

    The classic coordinator refuses the record only if `description` says so.
    """

    description: str
    issue: str
    releases: tuple[VersionRange, ...]

    def applies_to(self, version: Version) -> bool:
        return any(version in version_range for version_range in self.releases)


def _refuse(description: str, *releases: VersionRange, issue: str = "") -> Refusal:
    refusal = Refusal(description, issue, releases)
    REFUSALS.append(refusal)
    return refusal


# Kafka 3.7 to 3.9 have a preview of the new coordinator, next to the classic coordinator.
_PREVIEW = VersionRange(FIRST_WITH_NEW_COORDINATOR, FIRST_WITHOUT_CLASSIC_COORDINATOR)
# 4.2.2 came out after 4.3.1, so it has what 4.4 has and 4.3 has not.
_WITH_LIMITS = (VersionRange((4, 2, 2), (4, 3)), VersionRange((4, 4)))

SECOND_OWNER = _refuse(
    "A partition of a consumer group gets a second owner before the first owner is removed, also if the second owner "
    "has a higher epoch",
    VersionRange(FIRST_WITH_NEW_COORDINATOR, (4, 0, 2)),
    VersionRange((4, 1), (4, 1, 2)),
    issue="KAFKA-19862",
)
SECOND_TASK_OWNER = _refuse(
    "An active task of a streams group gets a second process before the first process is removed, or a streams "
    "member's metadata (type 19) comes after the current assignment (type 22) that gives this member active tasks",
    VersionRange((4, 1), (4, 1, 2)),
    issue="KAFKA-19862",
)
OWNER_WITHOUT_HIGHER_EPOCH = _refuse(
    "A partition of a consumer group gets a second owner whose epoch is not higher than the first owner's epoch, or a "
    "current assignment (type 8) has the same partition as assigned and as pending revocation",
    SINCE_3_7,
)
CONSUMER_RECORD_AFTER_COMMIT = _refuse(
    "A record of a consumer group (types 3 to 8) if an offset commit has already created a simple group with the same "
    "id",
    _PREVIEW,
    issue="KAFKA-17306",
)
STREAMS_RECORD_AFTER_COMMIT = _refuse(
    "A record of a streams group (types 17 to 23, also a tombstone) if an offset commit has already created a simple "
    "group with the same id",
    VersionRange((4, 1), (4, 2, 1)),
    issue="KAFKA-20254",
)
SHARE_RECORD_AFTER_COMMIT = _refuse(
    "A record of a share group (types 10 to 15) if an offset commit has already created a simple group with the same "
    "id",
    SINCE_4_0,
)
OTHER_TYPE_OF_GROUP = _refuse(
    "A record of another type of group than the existing group with the same id (except a record of type 2, which "
    "replaces any group)",
    SINCE_3_7,
    issue="KAFKA-21117",
)
CONSUMER_RECORD_WITHOUT_GROUP = _refuse(
    "A record of a consumer group that does not exist: a value of type 4, 6, 7 or 8 (only values of types 3 and 5 "
    "create the group), or a tombstone of types 3 to 8",
    _PREVIEW,
    issue="KAFKA-17306",
)
CONSUMER_RECORD_WITHOUT_MEMBER = _refuse(
    "A record of a member that does not exist in its consumer group: a current assignment (type 8, value or "
    "tombstone), or a tombstone of the member's metadata (type 5)",
    _PREVIEW,
    issue="KAFKA-17306",
)
SHARE_RECORD_WITHOUT_GROUP = _refuse(
    "A record of a share group that does not exist: a value of type 9, 12, 13 or 14 (only values of types 10 and 11 "
    "create the group), or a tombstone of types 9 to 14",
    VersionRange((4, 0), (4, 1)),
    issue="KAFKA-19453",
)
SHARE_RECORD_WITHOUT_MEMBER = _refuse(
    "A record of a member that does not exist in its share group: a current assignment (type 14, value or tombstone), "
    "or a tombstone of the member's metadata (type 10)",
    VersionRange((4, 0), (4, 1)),
    issue="KAFKA-19453",
)
SHARE_PARTITION_STATES = _refuse(
    "Any record of a share group's partition states (type 15), also a tombstone", VersionRange((4, 0), (4, 1))
)
EARLY_TOMBSTONE = _refuse(
    "A tombstone that comes too early: the group's tombstone (type 3, 11 or 17) while the group has members or "
    "targets; a member's tombstone (type 5, 10 or 19) while the member has a current assignment or a target; the "
    "tombstone of the target assignment epoch (type 6, 12 or 20) while the group has targets",
    SINCE_3_7,
    issue="KAFKA-21102",
)
ASSIGNMENT_EPOCH_COUNT = _refuse(
    "A current assignment of a streams member (type 22) with more or fewer assignment epochs than active tasks",
    VersionRange((4, 2), (4, 3)),
)
NEGATIVE_ASSIGNMENT_EPOCH = _refuse(
    "A target assignment epoch (type 6, 12 or 20) below -1, or with a negative assignment timestamp",
    VersionRange((4, 3)),
)
DOUBLE_ASSIGNED_TOPIC = _refuse(
    "A topic twice in a list of a consumer's current assignment (type 8)",
    VersionRange(FIRST_WITH_NEW_COORDINATOR, (4, 3)),
)
DOUBLE_ASSIGNED_SUBTOPOLOGY = _refuse(
    "A subtopology twice in a list of a streams member's current assignment (type 22)", VersionRange((4, 1), (4, 2))
)
DOUBLE_ENTRY = _refuse(
    "An entry twice in a list of a value: a topic (type 7, 13, 14 or 15), a subtopology (type 21 or 23), an assignor's "
    "setting (type 17) or a client tag (type 19)",
    SINCE_3_7,
)
INCOMPLETE_TOPIC = _refuse(
    "A value of type 4 (topics of a consumer group) or 9 (topics of a share group) in which a topic has no id, no name "
    "or a negative partition count",
    VersionRange(FIRST_WITH_NEW_COORDINATOR, (4, 1)),
)
NEGATIVE_TOPOLOGY_EPOCH = _refuse("A streams topology (type 23) with a negative epoch", SINCE_4_1)
NO_REBALANCE_TIMEOUT = _refuse(
    "After the whole log has been read: a streams member that has to give tasks back, but has no rebalance timeout, "
    "because its metadata (type 19) is missing",
    SINCE_4_1,
)
UNREADABLE_SUBSCRIPTION = _refuse(
    "A classic consumer group (type 2) with a subscription that cannot be read, unless the only reason is that its "
    "bytes end too early (the classic coordinators of 2.7 to 3.9 refuse this group, too)",
    VersionRange((2, 7), (4, 2, 2)),
    VersionRange((4, 3), (4, 4)),
    issue="KAFKA-20570",
)
OFFSET_COMMIT_OF_TYPE_0 = _refuse("An old offset record (type 0) with value version 1 to 4", SINCE_4_1)
TOO_MANY_ELEMENTS = _refuse("An array of more than 1,000,000 elements", *_WITH_LIMITS)
TOO_MANY_TAGS = _refuse(
    "More than 10,000 tagged fields in one struct, or a negative count of tagged fields", *_WITH_LIMITS
)
LARGE_DECOMPRESSED_RECORD = Refusal(
    "A record in a compressed batch that is larger than the setting max.decompressed.message.bytes. The log cleaner "
    "gives the partition up, and a load does not look at it",
    "",
    _WITH_LIMITS,
)
"""Not one of `REFUSALS`, because only the cleaner refuses it (log/cleaner.py)."""


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

    def since(self, *version: int) -> bool:
        """Return whether the coordinator has a rule that the classic coordinator has since `version`.

        The new coordinator has all rules that were added to the classic coordinator.
        """
        return self.coordinator == "new" or self.version >= version


def dialect(coordinator: str | None = None, kafka: str | None = None) -> Dialect:
    """Return the reading rules of a coordinator, "classic" or "new"; without it, of "classic" if `kafka` is below 4.0.

    `kafka` is a Kafka version, such as "4.3.1"; "4.3" means the newest patch release of 4.3, and None means 3.9.2 for
    the classic coordinator and 4.3.1 for the new one. A version that is newer than all known ones gets the rules of the
    nearest one (`Dialect.rules_of`). Raises UsageError if the coordinator or the version does not exist, or if the
    version does not have this coordinator.

    >>> dialect("classic", "2.8.2").max_group_value_version
    3
    """
    if coordinator is None:
        is_below_4 = kafka is not None and parse_release(kafka) < FIRST_WITHOUT_CLASSIC_COORDINATOR
        coordinator = "classic" if is_below_4 else "new"
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


_OFFSET_VALUES: dict[Version, int] = {(3, 4, 1): 4, (2, 1): 3, VERSION_2_1_IV0: 2, (0, 9): 1, (0,): 0}
_GROUP_VALUES: dict[Version, int] = {(3, 4): 4, (2, 3): 3, VERSION_2_1_IV0: 2, (0, 10, 1): 1, (0, 9): 0, (0,): -1}
"""The newest value version that a classic coordinator reads, by its first release. A new one reads the first."""


def build_dialect(coordinator: Coordinator, version: Version, kafka: str) -> Dialect:
    """Return the reading rules of a version, even if this version does not have the coordinator, as Kafka's own tools
    of 3.8 and 3.9 read records.
    """
    is_new = coordinator == "new"
    rules_version = AFTER_ALL_VERSIONS if is_new else version
    max_offset_value_version, max_group_value_version = (
        next(value_version for first, value_version in newest.items() if rules_version >= first)
        for newest in (_OFFSET_VALUES, _GROUP_VALUES)
    )
    return Dialect(
        coordinator=coordinator,
        kafka=kafka,
        # The classic coordinator never reads tag 0 (the topic id) of an offset value, even if `version` is above 3.9.
        version=version if is_new else min(version, (3, 9)),
        max_offset_value_version=max_offset_value_version,
        max_group_value_version=max_group_value_version,
        max_type0_value_version=0 if is_new and version >= (4, 1) else max_offset_value_version,
        skips_unknown_types=rules_version >= (3, 4, 1),
    )


def rules_to_json(rules_of: str | None) -> dict[str, str]:
    return {} if rules_of is None else {"kafka_rules": rules_of}


DEFAULT_DIALECT = dialect()
"""The reading rules of Kafka 4.3.1's new coordinator."""
