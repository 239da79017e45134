"""Kafka versions: which releases exist, and ranges of versions.

A feature release, such as 4.3, has several patch releases, such as 4.3.0 and 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, reduce
from typing import NamedTuple

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
    if SHORT_NAMES.get(text, text) in NEWEST_PATCHES or is_newer(text):
        return _parse_numbers(text)
    feature, _, patch = text.rpartition(".")
    if patch in map(str, range(NEWEST_PATCHES.get(feature, -1) + 1)):
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
