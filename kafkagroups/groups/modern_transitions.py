"""The transitions of consumer, share and streams groups, and the states of their members.

The new coordinator computes the state of a group from its records (`ModernGroup.state`). One request or one event
appends one batch, so a transition is the change of the state from one batch to the next. The batches are those of
brokers of 4.1 to 4.4. Kafka's code also has the state Dead, but no consumer, share or streams group enters it.
Source: logs that brokers of 4.0 to 4.4 wrote. The source of the other transitions is GroupMetadataManager.java
(4.3.1), with maybeUpdateGroupState of ConsumerGroup, ShareGroup and StreamsGroup.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkagroups.groups.modern_group import ModernState

MEMBER_STATE_MEANINGS = {
    "Stable": "The member has everything that its member epoch gives it.",
    "UnrevokedPartitions": "The member has to give partitions back. Until then, it stays in its old epoch.",
    "UnreleasedPartitions": "The member waits for partitions that other members have not given back.",
    "UnrevokedTasks": "The member has to give tasks back. Until then, it stays in its old epoch.",
    "UnreleasedTasks": "The member waits for tasks that other members have not given back.",
}
"""What the states of members mean. `MEMBER_STATES` (modern_group.py) has their numbers."""


class ModernTransition(NamedTuple):
    """A change of the state of a consumer, share or streams group.

    `before` and `after` are None if the group does not exist. `trigger` says what happens. `records` are the types of
    the records in the batch, in their order; "†" marks a tombstone. `is_recorded` says whether the captured logs of
    brokers contain the transition.
    """

    type: str
    before: ModernState | None
    after: ModernState | None
    trigger: str
    records: str
    is_recorded: bool = True


class Conversion(NamedTuple):
    """A change of the type of a group. The fields are those of `ModernTransition`; a state is Kafka's name."""

    before: str
    after: str
    trigger: str
    records: str


_EMPTY = ModernState.EMPTY
_NOT_READY = ModernState.NOT_READY
_ASSIGNING = ModernState.ASSIGNING
_RECONCILING = ModernState.RECONCILING
_STABLE = ModernState.STABLE

_LAST_LEAVES = "The last member leaves, or is removed"
_CONSUMER_LEAVE = "8† 7† 5† 3 (4.4: and 6)"
_CONSUMER_TRANSITIONS = (
    ModernTransition("consumer", None, _STABLE, "The first member joins", "5 3 7 6 8; with only a pattern: 5 8"),
    ModernTransition("consumer", _EMPTY, _STABLE, "A member joins", "5 3 7 6 8"),
    ModernTransition(
        "consumer",
        _STABLE,
        _RECONCILING,
        "Another member joins, a member changes its subscription, or a topic changes. A static member leaves for a "
        "restart",
        "5 3 7 6 8; topic: 3 7 6 8; restart: 8",
    ),
    ModernTransition(
        "consumer",
        _STABLE,
        _ASSIGNING,
        "A member leaves or is removed, and others remain. The topics of a new pattern are found. A member joins "
        "before group.consumer.assignment.interval.ms is over (since 4.3)",
        "8† 7† 5† 3; pattern: 16 3; interval: 5 3 8",
    ),
    ModernTransition("consumer", _STABLE, _EMPTY, _LAST_LEAVES, _CONSUMER_LEAVE),
    ModernTransition(
        "consumer",
        _RECONCILING,
        _STABLE,
        "The last member reaches its target. An absent static member returns",
        "8; return: 8† 7† 5† 5 7 8",
    ),
    ModernTransition(
        "consumer", _RECONCILING, _ASSIGNING, "A member leaves or is removed, and others remain", "8† 7† 5† 3"
    ),
    ModernTransition("consumer", _RECONCILING, _EMPTY, _LAST_LEAVES, _CONSUMER_LEAVE),
    ModernTransition(
        "consumer",
        _ASSIGNING,
        _RECONCILING,
        "A heartbeat causes new targets, and a member has not reached its target",
        "7 6 8",
    ),
    ModernTransition(
        "consumer",
        _ASSIGNING,
        _STABLE,
        "A heartbeat causes new targets, and its member is the only one that has to change",
        "7 6 8",
    ),
    ModernTransition("consumer", _ASSIGNING, _EMPTY, _LAST_LEAVES, _CONSUMER_LEAVE),
    ModernTransition(
        "consumer", _EMPTY, None, "DeleteGroups deletes the group, or its last offset expires", "1† 6† 4† 3†"
    ),
)

_SHARE_TRANSITIONS = (
    ModernTransition("share", None, _STABLE, "The first member joins", "10 11 13 12 14 15"),
    ModernTransition(
        "share", None, _EMPTY, "AlterShareGroupOffsets sets the start of a group that does not exist", "15"
    ),
    ModernTransition("share", _EMPTY, _STABLE, "A member joins", "10 11 13 12 14", is_recorded=False),
    ModernTransition("share", _STABLE, _EMPTY, _LAST_LEAVES, "14† 13† 10† 11 (4.4: and 12)"),
    ModernTransition("share", _EMPTY, None, "DeleteGroups deletes the group", "12† 15† 11†"),
)

_TOPICS_MISSING = "The topology changes, or one of its topics is missing"
_STREAMS_LEAVE = "22† 21† 19† 17 (4.4: and 20)"
_LATER = "and the targets are computed later (initial rebalance delay, assignment interval)"
_STREAMS_TRANSITIONS = (
    ModernTransition("streams", None, _NOT_READY, "The first member joins, and topics are missing", "19 23 17 22"),
    ModernTransition("streams", None, _ASSIGNING, f"The first member joins, {_LATER}", "19 23 17 22"),
    ModernTransition("streams", None, _STABLE, "The first member joins, and all topics exist", "19 23 17 21 20 22"),
    ModernTransition("streams", _EMPTY, _NOT_READY, "A member joins, and topics are missing", "19 17 22", False),
    ModernTransition("streams", _EMPTY, _ASSIGNING, f"A member joins, {_LATER}", "19 17 22", False),
    ModernTransition("streams", _EMPTY, _STABLE, "A member joins, and all topics exist", "19 17 21 20 22", False),
    ModernTransition("streams", _NOT_READY, _ASSIGNING, f"The topics exist now, {_LATER}", "17 22"),
    ModernTransition("streams", _NOT_READY, _RECONCILING, "The topics exist now", "17 21 20 22", False),
    ModernTransition("streams", _NOT_READY, _STABLE, "The topics exist now, and no member waits", "17 21 20 22"),
    ModernTransition("streams", _NOT_READY, _EMPTY, _LAST_LEAVES, _STREAMS_LEAVE, False),
    ModernTransition(
        "streams",
        _ASSIGNING,
        _RECONCILING,
        "A heartbeat causes new targets, and a member has not reached its target",
        "21 20 22",
        is_recorded=False,
    ),
    ModernTransition(
        "streams",
        _ASSIGNING,
        _STABLE,
        "A heartbeat causes new targets, and its member is the only one that has to change",
        "21 20 22",
    ),
    ModernTransition("streams", _ASSIGNING, _NOT_READY, _TOPICS_MISSING, "17", is_recorded=False),
    ModernTransition("streams", _ASSIGNING, _EMPTY, _LAST_LEAVES, _STREAMS_LEAVE, is_recorded=False),
    ModernTransition(
        "streams",
        _RECONCILING,
        _STABLE,
        "The last member reaches its target. An absent static member returns (since 4.4)",
        "22; return: 22† 21† 19† 19 21 22",
    ),
    ModernTransition(
        "streams",
        _RECONCILING,
        _ASSIGNING,
        "A member leaves or is removed, and others remain",
        "22† 21† 19† 17",
        is_recorded=False,
    ),
    ModernTransition("streams", _RECONCILING, _NOT_READY, _TOPICS_MISSING, "17", is_recorded=False),
    ModernTransition("streams", _RECONCILING, _EMPTY, _LAST_LEAVES, _STREAMS_LEAVE, is_recorded=False),
    ModernTransition(
        "streams",
        _STABLE,
        _RECONCILING,
        "Another member joins. A static member leaves for a restart (since 4.4)",
        "19 17 21 20 22; restart: 22",
    ),
    ModernTransition(
        "streams", _STABLE, _ASSIGNING, "A member leaves or is removed, and others remain", "22† 21† 19† 17"
    ),
    ModernTransition("streams", _STABLE, _NOT_READY, _TOPICS_MISSING, "17", is_recorded=False),
    ModernTransition("streams", _STABLE, _EMPTY, _LAST_LEAVES, _STREAMS_LEAVE),
    ModernTransition("streams", _EMPTY, None, "DeleteGroups deletes the group", "1† 20† 17† 23†"),
)

MODERN_TRANSITIONS = (*_CONSUMER_TRANSITIONS, *_SHARE_TRANSITIONS, *_STREAMS_TRANSITIONS)
"""Every transition of a consumer, share or streams group."""

_DOWNGRADE = "The last member with the new protocol leaves, and classic members remain (downgrade)"
CONVERSIONS = (
    Conversion("classic Empty", "consumer Stable", "A member with the new protocol joins", "2† 5 3 7 6 8"),
    Conversion(
        "classic Stable",
        "consumer Reconciling",
        "A member with the new protocol joins (upgrade)",
        "2† 5 3 7 6 8, then the batch of the new member",
    ),
    Conversion(
        "classic Stable",
        "consumer Stable",
        "A member with the new protocol takes the place of the only static member",
        "2† 5 3 7 6 8, then the batch of the replacement",
    ),
    Conversion("classic Empty", "streams Assigning", "A streams member joins", "2† 19 23 17 22"),
    Conversion("consumer Empty", "classic Empty", "A classic member joins (JoinGroup)", "6† 4† 3† 2"),
    Conversion("consumer Reconciling", "classic Stable", _DOWNGRADE, "8† 7† 6† 5† 4† 3† 2"),
    Conversion("consumer Stable", "classic Stable", _DOWNGRADE, "8† 7† 6† 5† 4† 3† 2"),
    Conversion("streams Empty", "classic Empty", "A classic member joins (JoinGroup)", "20† 17† 23† 2"),
)
"""The changes of a group's type that the captured logs contain. A share group never changes its type."""
