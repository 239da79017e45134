"""Well-formed records that fail a load in some releases of the new coordinator.

A record is well-formed if its bytes can be decoded. Nevertheless, the new coordinator of some releases refuses the
records below, and then the load of the whole partition fails. If you load a log with the rules of a release, the load
fails at the same record. Many of these refusals are Kafka bugs with an issue number. docs/releases.md shows all
refusals as a table.

A range of versions ends before the first release that accepts the record. NEWEST as the end means that no release
accepts the record yet. A simple group has only offset records, because no member has ever joined it. A target is the
assignment that a member should have. In a streams group, members get tasks instead of partitions, and each member
belongs to a process (streams_group.py).
Source: GroupMetadataManager.replay and onLoaded of 3.9.2 to 4.4.0, run with random records (tests/releases).
"""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.records.versions import (
    FIRST_WITH_NEW_COORDINATOR,
    FIRST_WITHOUT_CLASSIC_COORDINATOR,
    NEWEST,
    Version,
    VersionRange,
)


class Refusal(NamedTuple):
    """A kind of record that some coordinators refuse, so that a load fails.

    `description` says which records. `issue` is the number of Kafka's issue, or "" if no issue exists. `releases` are
    the versions that refuse the record. Only the new coordinator refuses the record, except if `description` says that
    the classic coordinator refuses it, too.
    """

    description: str
    issue: str
    releases: tuple[VersionRange, ...]

    def applies_to(self, version: Version) -> bool:
        """Return whether the coordinator of this Kafka version refuses the record."""
        return any(version in releases for releases in self.releases)


# Kafka 3.7 to 3.9 have a preview of the new coordinator, next to the classic coordinator.
_PREVIEW = VersionRange(FIRST_WITH_NEW_COORDINATOR, FIRST_WITHOUT_CLASSIC_COORDINATOR)
_SINCE_4_0 = VersionRange(FIRST_WITHOUT_CLASSIC_COORDINATOR, NEWEST)
_SINCE_4_1 = VersionRange((4, 1), NEWEST)
_SINCE_3_7 = VersionRange(FIRST_WITH_NEW_COORDINATOR, NEWEST)

SECOND_OWNER = Refusal(
    "A partition of a consumer group gets an owner while it still has another owner",
    "KAFKA-19862",
    (VersionRange(FIRST_WITH_NEW_COORDINATOR, (4, 0, 2)), VersionRange((4, 1), (4, 1, 2))),
)
SECOND_TASK_OWNER = Refusal(
    "An active task of a streams group gets a process while it still has another process, or the member's record of "
    "type 19 comes after its tasks",
    "KAFKA-19862",
    (VersionRange((4, 1), (4, 1, 2)),),
)
OWNER_OF_LOWER_EPOCH = Refusal(
    "A partition of a consumer group gets a second owner with the same or a lower epoch, or a member both has the "
    "partition and has to give it back",
    "",
    (_SINCE_3_7,),
)
STREAMS_RECORD_AFTER_COMMIT = Refusal(
    "A record of a streams group (types 17 to 23, also a tombstone) after an offset commit that made a simple group",
    "KAFKA-20254",
    (VersionRange((4, 1), (4, 2, 1)),),
)
CONSUMER_RECORD_AFTER_COMMIT = Refusal(
    "A record of a consumer group (types 3 to 8) after an offset commit that made a simple group",
    "KAFKA-17306",
    (_PREVIEW,),
)
SHARE_RECORD_AFTER_COMMIT = Refusal(
    "A record of a share group (types 10 to 15) after an offset commit that made a simple group",
    "",
    (_SINCE_4_0,),
)
OTHER_TYPE_OF_GROUP = Refusal(
    "A record that belongs to another type of group than the existing group (a record of type 2 replaces any group)",
    "KAFKA-21117",
    (_SINCE_3_7,),
)
CONSUMER_RECORD_WITHOUT_GROUP = Refusal(
    "A record of types 4, 6, 7 or 8 before a record of types 3 or 5, and any tombstone of types 3 to 8 of an unknown "
    "consumer group",
    "KAFKA-17306",
    (_PREVIEW,),
)
CONSUMER_RECORD_WITHOUT_MEMBER = Refusal(
    "A record of type 8, or a tombstone of type 5, of an unknown member of a consumer group",
    "KAFKA-17306",
    (_PREVIEW,),
)
SHARE_RECORD_WITHOUT_GROUP = Refusal(
    "A record of types 9 or 12 to 14 before a record of types 10 or 11, and any tombstone of types 9 to 14 of an "
    "unknown share group",
    "KAFKA-19453",
    (VersionRange((4, 0), (4, 1)),),
)
SHARE_RECORD_WITHOUT_MEMBER = Refusal(
    "A record of type 14, or a tombstone of type 10, of an unknown member of a share group",
    "KAFKA-19453",
    (VersionRange((4, 0), (4, 1)),),
)
SHARE_PARTITION_STATES = Refusal("Any record of type 15, also a tombstone", "", (VersionRange((4, 0), (4, 1)),))
EARLY_TOMBSTONE = Refusal(
    "A tombstone that comes too early: of a group that has members or targets, of a member that has an assignment or a "
    "target, of a target assignment epoch that has targets",
    "KAFKA-21102",
    (_SINCE_3_7,),
)
ASSIGNMENT_EPOCH_COUNT = Refusal(
    "A value of type 22 with more or fewer assignment epochs than active tasks",
    "",
    (VersionRange((4, 2), (4, 3)),),
)
NEGATIVE_ASSIGNMENT_EPOCH = Refusal(
    "A value of types 6, 12 or 20 with an assignment epoch below -1 or a negative assignment timestamp",
    "",
    (VersionRange((4, 3), NEWEST),),
)
DOUBLE_ASSIGNED_TOPIC = Refusal(
    "A topic twice in a value of type 8", "", (VersionRange(FIRST_WITH_NEW_COORDINATOR, (4, 3)),)
)
DOUBLE_ASSIGNED_SUBTOPOLOGY = Refusal("A subtopology twice in a value of type 22", "", (VersionRange((4, 1), (4, 2)),))
DOUBLE_ENTRY = Refusal(
    "A topic twice in a value of types 7, 13, 14 or 15, a subtopology twice in one of types 21 or 23, a key twice in "
    "the settings of type 17 or the client tags of type 19",
    "",
    (_SINCE_3_7,),
)
INCOMPLETE_TOPIC = Refusal(
    "A topic without id, without name or with a negative partition count in a value of types 4 or 9",
    "",
    (VersionRange(FIRST_WITH_NEW_COORDINATOR, (4, 1)),),
)
NEGATIVE_TOPOLOGY_EPOCH = Refusal("A topology (type 23) with a negative epoch", "", (_SINCE_4_1,))
NO_REBALANCE_TIMEOUT = Refusal(
    "A streams member that has to give tasks back but has no record of type 19, after the whole log has been read",
    "",
    (_SINCE_4_1,),
)
UNREADABLE_SUBSCRIPTION = Refusal(
    "A classic consumer group (type 2) with a subscription that cannot be read, except if the subscription's bytes "
    "only end too early (the classic coordinators of 2.7 to 3.9 refuse it, too)",
    "",
    (VersionRange((2, 7), (4, 4)),),
)
OFFSET_COMMIT_OF_TYPE_0 = Refusal("A key of type 0 with a value of versions 1 to 4", "", (_SINCE_4_1,))
TOO_MANY_ELEMENTS = Refusal("An array of more than 1,000,000 elements", "", (VersionRange((4, 4), NEWEST),))
TOO_MANY_TAGS = Refusal(
    "More than 10,000 tagged fields in one struct, or a negative number of them", "", (VersionRange((4, 4), NEWEST),)
)

REFUSALS = (
    SECOND_OWNER,
    SECOND_TASK_OWNER,
    OWNER_OF_LOWER_EPOCH,
    CONSUMER_RECORD_AFTER_COMMIT,
    STREAMS_RECORD_AFTER_COMMIT,
    SHARE_RECORD_AFTER_COMMIT,
    OTHER_TYPE_OF_GROUP,
    CONSUMER_RECORD_WITHOUT_GROUP,
    CONSUMER_RECORD_WITHOUT_MEMBER,
    SHARE_RECORD_WITHOUT_GROUP,
    SHARE_RECORD_WITHOUT_MEMBER,
    SHARE_PARTITION_STATES,
    EARLY_TOMBSTONE,
    ASSIGNMENT_EPOCH_COUNT,
    NEGATIVE_ASSIGNMENT_EPOCH,
    DOUBLE_ASSIGNED_TOPIC,
    DOUBLE_ASSIGNED_SUBTOPOLOGY,
    DOUBLE_ENTRY,
    INCOMPLETE_TOPIC,
    NEGATIVE_TOPOLOGY_EPOCH,
    NO_REBALANCE_TIMEOUT,
    UNREADABLE_SUBSCRIPTION,
    OFFSET_COMMIT_OF_TYPE_0,
    TOO_MANY_ELEMENTS,
    TOO_MANY_TAGS,
)
"""All refusals, in the order of the table in docs/releases.md."""
