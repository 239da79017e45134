"""Kafka versions: which releases exist, what coordinators read, what brokers write.

**Reading.** There are two group coordinators: the classic one (Scala, up to 3.9) and the new one (Java, from 4.0 on).
3.7 to 3.9 have a preview of the new coordinator. refusals.py lists the records that the new coordinator refuses only in
some releases.

If a record has a type or version that a coordinator *refuses*, the load of the whole partition fails. A record that a
coordinator *skips* has no effect. Each line of the table shows the first version of a change. "offset values 0-1" means
that the coordinator reads value versions 0 and 1 of offset records. An empty place means: as in the line above:

    classic  0     offset values 0                        key type 0; other types are refused
             0.9   offset values 0-1, group values 0      key types 0-2; other types are refused
             0.10.1                   group values 0-1
             2.1   offset values 0-3, group values 0-2
             2.3                      group values 0-3
             3.4                      group values 0-4
             3.4.1 offset values 0-4                      other types are skipped
    new      3.7   types 0-8; a value of an unknown version is read like the nearest known version
             4.0   offset and group values up to 4; type 0 has the values of type 1
             4.1   type 0 has value 0 only; offset values have the topic id (tag 0)

**Types.** `READ_TYPES` contains, for each record type above 2, the versions whose new coordinator reads it.

**Writing.** `WRITTEN_VALUES` has a line for each value version that a broker writes. Up to 3.9, a broker writes the
values of its inter.broker.protocol.version, which can be older than the broker. So "2.0" means a 2.0 broker, or a newer
broker with this setting. No broker writes value version 4 of a group. anatomy/written_by.py uses the same table to find
the brokers that could have written a value.

Source: GroupMetadataManager.scala (tags 0.9.0.1 to 3.9), GroupCoordinatorRecordSerde.java, records of captured
brokers, and records that Kafka's own code of nine versions (0.8.2.2 to 4.3.1) wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

from kafkagroups.errors import UsageError

Version = tuple[int, ...]
"""A Kafka version as numbers: (3, 9, 2)."""
Coordinator = Literal["classic", "new"]

NEWEST: Version = (2**31,)
"""A version above every Kafka version. A reader of this version has all declared tags."""

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
    "4.2": 1,
    "4.3": 1,
    "4.4": 0,
}
"""The number of the newest patch release of every feature release. "4.3": 1 means that 4.3.0 and 4.3.1 exist."""

SHORT_NAMES = {"0.9": "0.9.0", "0.11": "0.11.0"}
"""Shorter names of two feature releases."""

DEFAULT_KAFKA: dict[Coordinator, str] = {"classic": "3.9.2", "new": "4.3.1"}
FIRST_WITH_NEW_COORDINATOR: Version = (3, 7)
"""The first version with the new coordinator. Up to 3.9 it is a preview, next to the classic coordinator."""
FIRST_WITHOUT_CLASSIC_COORDINATOR: Version = (4, 0)

STEP_BEFORE_2_1: Version = (2, 0, 2**30)
"""2.1-IV0, a development step between 2.0 and 2.1. No other development step wrote special value versions."""

CHECKED_VERSIONS: dict[Coordinator, tuple[str, ...]] = {
    "classic": ("0.8.2.2", "0.9.0.1", "0.10.2.2", "1.0.1", "2.3.1", "2.8.2", "3.9.2"),
    "new": (
        *("3.9.2", "4.0.0", "4.0.1", "4.0.2", "4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.3.0", "4.3.1", "4.4.0"),
    ),
}
"""The versions for which a load was compared with a broker of the same version."""

CLASSIC_CHANGES: tuple[Version, ...] = (
    *((0, 9), (0, 10, 1), (1, 0, 1), (2, 0, 1), (2, 1), (2, 3), (2, 7), (3, 0), (3, 4), (3, 4, 1)),
)
"""The versions that changed how the classic coordinator loads a log. Versions between two changes load alike."""


def parse_release(text: str) -> Version:
    """Return the numbers of a Kafka release or feature release: "3.9.2" is (3, 9, 2), "4.3" is (4, 3).

    Raises UsageError if Kafka has no release with this name.
    """
    feature = SHORT_NAMES.get(text, text)
    if feature in NEWEST_PATCHES:
        return _numbers(text)
    feature, _, patch = text.rpartition(".")
    if patch in map(str, range(NEWEST_PATCHES.get(feature, -1) + 1)):
        return _numbers(text)
    raise UsageError(f"{text!r} is not a Kafka release; expected one from 0.8.2.0 to 4.4.0, such as 3.9.2 or 4.3")


def _numbers(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


@cache
def feature_releases() -> dict[str, Version]:
    """Return the numbers of each feature release by its shortest name. The oldest release is first."""
    short_names = {name: short_name for short_name, name in SHORT_NAMES.items()}
    shortest_names = [short_names.get(name, name) for name in NEWEST_PATCHES]
    return {name: _numbers(name) for name in shortest_names}


@dataclass(frozen=True, slots=True)
class Dialect:
    """The rules by which one coordinator of one Kafka version reads records.

    Attributes
    ----------
    coordinator, kafka
        "classic" or "new", and the Kafka version as text.
    version
        The Kafka version whose fields the coordinator reads, as numbers.
    offset_values
        The highest readable version of an offset value.
    group_values
        The highest readable version of a group value; -1 if there are no group records.
    type0_values
        The highest readable value version under key type 0.
    skips_unknown_types
        Whether the coordinator skips unknown record types instead of refusing them.
    reads_unknown_versions
        Whether the coordinator reads a value of an unknown version like the nearest known version, instead of refusing
        it.
    rules_of
        None if a load of this version was compared with a broker of this version. Otherwise the nearest compared
        version with the same rules. If no such version exists, this version: its rules come from Kafka's source.
    """

    coordinator: Coordinator
    kafka: str
    version: Version
    offset_values: int
    group_values: int
    type0_values: int
    skips_unknown_types: bool
    reads_unknown_versions: bool = False
    rules_of: str | None = None

    def since(self, *version: int) -> bool:
        """Return whether a rule that `version` added holds. In the new coordinator such a rule always holds."""
        return self.coordinator == "new" or self.version >= version


def dialect(coordinator: str = "new", kafka: str | None = None) -> Dialect:
    """Return the reading rules of a coordinator.

    Parameters
    ----------
    coordinator
        "classic" or "new".
    kafka
        The Kafka version, such as "4.3.1". "4.3" is its newest patch release. None: 3.9.2 for the classic coordinator,
        4.3.1 for the new one.

    Returns
    -------
    Dialect
        The rules. `decode` and other functions accept a Dialect as `reader_of`.

    Raises
    ------
    UsageError
        The coordinator or the version does not exist, or the version does not have this coordinator.

    Examples
    --------
    >>> dialect("classic", "2.8.2").group_values
    3
    """
    if coordinator not in ("classic", "new"):
        raise UsageError(f'the coordinator is "classic" or "new", not {coordinator!r}')
    known_coordinator: Coordinator = "classic" if coordinator == "classic" else "new"
    text = DEFAULT_KAFKA[known_coordinator] if kafka is None else kafka
    version = _newest_patch(text)
    if known_coordinator == "classic" and version >= FIRST_WITHOUT_CLASSIC_COORDINATOR:
        raise UsageError(f"Kafka {text} has no classic coordinator; the last version with it is 3.9.2")
    if known_coordinator == "new" and version < FIRST_WITH_NEW_COORDINATOR:
        raise UsageError(f"Kafka {text} has no new coordinator; the first version with it is 3.7")
    built = build_dialect(known_coordinator, version, text)
    is_preview = known_coordinator == "new" and version < FIRST_WITHOUT_CLASSIC_COORDINATOR
    return replace(built, reads_unknown_versions=is_preview, rules_of=_find_rules(known_coordinator, version))


def _newest_patch(text: str) -> Version:
    """Return the numbers of a release. A feature release such as 4.3 means its newest patch release."""
    version = parse_release(text)
    feature = SHORT_NAMES.get(text, text)
    return (*_numbers(feature), NEWEST_PATCHES[feature]) if feature in NEWEST_PATCHES else version


@cache
def _find_rules(coordinator: Coordinator, version: Version) -> str | None:
    """Return the nearest checked version that has the same rules as this version. None: this version was checked.

    If no checked version has the same rules, return this version: its rules come from Kafka's source.
    """
    checked = {_numbers(text): text for text in CHECKED_VERSIONS[coordinator]}
    if version in checked:
        return None
    older = max((each for each in checked if each < version), default=None)
    if older is not None and not _changes_between(coordinator, older, version):
        return checked[older]
    newer = min((each for each in checked if each > version), default=None)
    if newer is not None and not _changes_between(coordinator, version, newer):
        return checked[newer]
    return ".".join(map(str, version))


def _changes_between(coordinator: Coordinator, older: Version, newer: Version) -> bool:
    return coordinator == "classic" and any(older < change <= newer for change in CLASSIC_CHANGES)


def build_dialect(coordinator: Coordinator, version: Version, kafka: str) -> Dialect:
    """Return the reading rules of a version, even if that version does not have this coordinator.

    `kafka` is the text of the version for messages. Kafka's own tools need this: the tools of 3.8 and 3.9 already read
    records as the new coordinator does.
    """
    if coordinator == "new":
        return Dialect("new", kafka, version, 4, 4, 0 if version >= (4, 1) else 4, True)
    offset_values = _newest_rule(version, {(3, 4, 1): 4, (2, 1): 3, STEP_BEFORE_2_1: 2, (0, 9): 1, (0,): 0})
    group_values = _newest_rule(version, {(3, 4): 4, (2, 3): 3, STEP_BEFORE_2_1: 2, (0, 10, 1): 1, (0, 9): 0, (0,): -1})
    # The classic coordinator never reads tag 0 of an offset value, even if `version` is above 3.9.
    known_fields = min(version, (3, 9))
    return Dialect("classic", kafka, known_fields, offset_values, group_values, offset_values, version >= (3, 4, 1))


def _newest_rule(version: Version, rules: dict[Version, int]) -> int:
    """Return the value of the newest rule that a version has.

    The keys of `rules` are the versions that added a rule. The newest version is first.
    """
    return next(value for since, value in rules.items() if version >= since)


DEFAULT_DIALECT = dialect()
"""The reading rules of Kafka 4.3.1."""


class VersionRange(NamedTuple):
    """Kafka versions from `since` on and below `until`."""

    since: Version
    until: Version

    def __contains__(self, version: object) -> bool:
        return isinstance(version, tuple) and self.since <= version < self.until

    def intersect(self, other: VersionRange) -> VersionRange:
        """Return the versions that are in both ranges. If no version is in both, since >= until."""
        return VersionRange(max(self.since, other.since), min(self.until, other.until))


class WrittenValue(NamedTuple):
    """A value version of a record type, and the Kafka versions that write it.

    `range` contains the Kafka versions. `expires` is True if these Kafka versions write the value version only for a
    commit with a retention time.
    """

    type: int
    version: int
    range: VersionRange
    expires: bool = False


EVERY_VERSION = VersionRange((0,), NEWEST)
_CONSUMER_TYPES = VersionRange(FIRST_WITH_NEW_COORDINATOR, NEWEST)
_SHARE_TYPES = VersionRange((4, 0), NEWEST)
_STREAMS_TYPES = VersionRange((4, 1), NEWEST)

READ_TYPES: dict[int, VersionRange] = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8), _CONSUMER_TYPES),
    16: VersionRange((4, 0), NEWEST),
    9: VersionRange((4, 0), (4, 1)),
    **dict.fromkeys((10, 11, 12, 13, 14, 15), _SHARE_TYPES),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), _STREAMS_TYPES),
}
"""The versions whose new coordinator reads a record type above 2."""

_WRITTEN_TYPES = {4: VersionRange(FIRST_WITH_NEW_COORDINATOR, (4, 1)), 15: VersionRange((4, 1), NEWEST)}
"""The versions that write a record type, if they are not the versions that read the record type.

Kafka 4.0 reads type 15 but does not write it."""

WRITTEN_VALUES = (
    WrittenValue(0, 0, VersionRange((0, 8, 2), (0, 9))),
    WrittenValue(1, 1, VersionRange((0, 9), STEP_BEFORE_2_1)),
    WrittenValue(1, 1, VersionRange(STEP_BEFORE_2_1, NEWEST), expires=True),
    WrittenValue(1, 2, VersionRange(STEP_BEFORE_2_1, (2, 1))),
    WrittenValue(1, 3, VersionRange((2, 1), (4, 1))),
    WrittenValue(1, 4, VersionRange((4, 1), NEWEST)),
    WrittenValue(2, 0, VersionRange((0, 9), (0, 10, 1))),
    WrittenValue(2, 1, VersionRange((0, 10, 1), STEP_BEFORE_2_1)),
    WrittenValue(2, 2, VersionRange(STEP_BEFORE_2_1, (2, 3))),
    WrittenValue(2, 3, VersionRange((2, 3), NEWEST)),
    *(WrittenValue(number, 0, _WRITTEN_TYPES.get(number, read)) for number, read in READ_TYPES.items()),
)
"""For each record type, the value versions and the Kafka versions that write them."""


@cache
def written_values(record_type: int) -> tuple[WrittenValue, ...]:
    """Return the lines of `WRITTEN_VALUES` for a record type."""
    return tuple(written for written in WRITTEN_VALUES if written.type == record_type)


def parse_writer(text: str) -> Version:
    """Return the numbers of a version whose values a broker can write: a release, or "2.1-IV0"."""
    return STEP_BEFORE_2_1 if text == "2.1-IV0" else parse_release(text)


def value_version(record_type: int, kafka: str, *, expires: bool = False) -> int:
    """Return the value version that a broker writes for a record type.

    Parameters
    ----------
    record_type
        The number in the key: 1 for an offset, 2 for a classic group, …
    kafka
        The broker's version, or the older version in inter.broker.protocol.version. It can also be "2.1-IV0".
    expires
        Whether the client asked for a retention time (OffsetCommit v2 to v4).

    Returns
    -------
    int
        The number in the first two bytes of the value.

    Raises
    ------
    UsageError
        The version does not exist, or a broker of this version writes no record of this type.

    Examples
    --------
    >>> value_version(1, "2.8.2"), value_version(1, "2.8.2", expires=True), value_version(1, "4.1.0")
    (3, 1, 4)
    """
    version = parse_writer(kafka)
    candidates = [written for written in written_values(record_type) if version in written.range]
    expiring = [written for written in candidates if written.expires and expires]
    matching = expiring or [written for written in candidates if not written.expires]
    if not matching:
        raise UsageError(f"Kafka {kafka} writes no record of type {record_type}")
    return matching[0].version
