"""Records whose bytes can be decoded, but that fail a load in some releases of the new coordinator.

Many of these refusals are Kafka bugs with an issue number; docs/releases.md shows all of them as a table.
Source: GroupMetadataManager.replay and onLoaded of 3.9.2 to 4.4.0, run with random records (tests/releases).
"""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.records.versions import (
    FIRST_WITH_NEW_COORDINATOR,
    FIRST_WITHOUT_CLASSIC_COORDINATOR,
    SINCE_3_7,
    SINCE_4_0,
    SINCE_4_1,
    Version,
    VersionRange,
)

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
