"""Whether a deleted offset can have expired, as far as the log tells.

A tombstone does not contain its cause. The log tells what is impossible:

- An offset with an expire timestamp (a commit with a retention time, or any commit before Kafka 2.1) expires at this
  time, and not before.
- Other offsets expire when offsets.retention.minutes have passed. This setting is not in the log. Its smallest value is
  1 minute, so an offset that was deleted earlier did not expire. If the caller gives the setting, an offset that was
  deleted earlier did not expire, and one that was deleted later did: it was overdue.
- The time counts from the moment when a classic group became Empty, or from the commit.
- Offsets of a group with members expire only if no member subscribes to the topic.
- Offsets of one group that are old enough expire together. If an offset that is as old was not deleted, the deleted
  offset did not expire either.

Source: GroupMetadata.removeExpiredOffsets (3.9), OffsetExpirationConditionImpl (4.3.1), groups/expiration.py.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, cast

from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.group_events import GroupState
from kafkagroups.history.group_log import GroupRecord
from kafkagroups.history.group_requests import CONSUMER
from kafkagroups.log.batch import NO_TIMESTAMP

MIN_RETENTION_MS = 60_000
"""The smallest value of offsets.retention.minutes, in ms."""


class Expiry(Enum):
    """Whether a deleted offset expired: CERTAIN, POSSIBLE (the log does not tell), or IMPOSSIBLE."""

    CERTAIN = "certain"
    POSSIBLE = "possible"
    IMPOSSIBLE = "impossible"


def judge_expiry(
    key: TopicPartition,
    commit: GroupRecord,
    tombstone: GroupRecord,
    group: GroupState,
    oldest_begin_ms: int | None,
    retention_ms: int | None = None,
) -> Expiry:
    """Return whether the offset of `commit` can have expired when `tombstone` deleted it.

    `group` is the group at this time. `oldest_begin_ms` is the earliest time from which the retention time of another
    offset counts: an offset of the group that no tombstone of the same batch deletes, and that may expire. It is None
    if there is no such offset. `retention_ms` is the broker's offsets.retention.minutes in ms; None if it is not known.
    """
    if tombstone.timestamp == NO_TIMESTAMP:
        return Expiry.POSSIBLE
    expire_ms = get_expire_time(commit)
    if expire_ms is not None:
        return Expiry.CERTAIN if tombstone.timestamp >= expire_ms else Expiry.IMPOSSIBLE
    begin_ms = find_retention_begin(key, commit, group)
    shortest_ms = MIN_RETENTION_MS if retention_ms is None else retention_ms
    if begin_ms is None or tombstone.timestamp - begin_ms < shortest_ms:
        return Expiry.IMPOSSIBLE
    if oldest_begin_ms is not None and oldest_begin_ms <= begin_ms:
        return Expiry.IMPOSSIBLE
    return Expiry.POSSIBLE if retention_ms is None else Expiry.CERTAIN


def get_expire_time(commit: GroupRecord) -> int | None:
    """Return the expire timestamp in a commit, in ms since 1970; None if the commit has none."""
    expire_ms = getattr(commit.record.value, "expire_timestamp", -1)
    return None if expire_ms == -1 else expire_ms


def find_retention_begin(key: TopicPartition, commit: GroupRecord, group: GroupState) -> int | None:
    """Return the time from which the retention time of an offset counts, in ms since 1970; None if it cannot expire."""
    commit_ms: int = cast(Any, commit.record.value).commit_timestamp
    if group.members:
        never_expires = group.type == "classic" and group.protocol_type != CONSUMER
        return None if never_expires or group.subscribes(key.topic) else commit_ms
    if group.type == "classic" and group.protocol_type and group.empty_since_ms is not None:
        return group.empty_since_ms
    return commit_ms
