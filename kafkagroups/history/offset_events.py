"""The events of a group's offsets: commits, rewinds, transactions, and deletions.

The committed and the pending offsets follow the rules of the coordinator (groups/offsets.py). A commit in a transaction
takes effect at the marker, and only if no later record has committed the topic partition.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple, cast

from kafkagroups.groups.log_records import get_topic_partition
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.event import Cause, Event
from kafkagroups.history.group_events import GroupState
from kafkagroups.history.group_log import GroupRecord, Marker
from kafkagroups.history.last_moves import Position
from kafkagroups.history.offset_expiry import Expiry, find_retention_begin, get_expire_time, judge_expiry
from kafkagroups.history.rewound import RewoundPosition
from kafkagroups.history.words import describe_duration, time_or_none
from kafkagroups.log.batch import NO_TIMESTAMP
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.wire import UUID

_WORDS = {
    Cause.OFFSET_DELETED: "by request",
    Cause.TOPIC_DELETED: "with the topic",
    Cause.GROUP_DELETED: "with the group",
}
"""The words for the causes of a deletion by a request."""


class Commit(NamedTuple):
    """A committed offset. `hole_count` is how many holes of the log are before the commit took effect."""

    group_record: GroupRecord
    offset: int
    hole_count: int


@dataclass
class Pending:
    """A commit in an open transaction. `deleted_by` is the offset of the tombstone that deleted the pending commit."""

    group_record: GroupRecord
    offset: int
    deleted_by: int | None = None


class OffsetEvents:
    """The events of a group's offsets in one partition.

    `committed` are the committed offsets, and `pending` the pending ones by producer id. `hole_count` is how many holes
    of the log have been passed. The caller counts them. If `skips_routine` is true, commits that only move an offset
    forward have no event. `retention_ms` is the broker's offsets.retention.minutes in ms; None if it is not known.
    """

    def __init__(
        self,
        partition: int | None,
        dialect: Dialect,
        *,
        skips_routine: bool = False,
        retention_ms: int | None = None,
    ) -> None:
        self.partition = partition
        self.retention_ms = retention_ms
        self.skips_routine = skips_routine
        self.is_classic = dialect.coordinator == "classic"
        self.committed: dict[TopicPartition, Commit] = {}
        self.pending: dict[int, dict[TopicPartition, Pending]] = {}
        self.hole_count = 0
        self.causes: dict[int, Cause] = {}
        """The causes of the tombstones, by their offsets in the log."""
        self.replaced: dict[int, int] = {}
        """By the offset of a record that committed an offset: the offset that was committed before."""
        self.rewinds: dict[int, str] = {}
        """By the offset of a record that committed a smaller offset than before: the sentence about it."""
        self.positions: dict[TopicPartition, RewoundPosition] = {}
        """How far each topic partition had been, since the last deletion of its offset."""
        self.last_moves: dict[TopicPartition, Position] = {}
        """The last move of each committed offset, since the last deletion of the offset."""
        self.topic_ids: dict[str, str] = {}
        """The newest id of each topic, as far as commits contain it."""
        self._seen_topic_ids: set[str] = set()
        self._deleted: dict[TopicPartition, int] = {}
        """The topic partitions whose newest offset was deleted, and this offset."""
        self._by_key: dict[TopicPartition, dict[int, Pending]] = {}
        """The pending commits of `pending`, by topic partition and then by producer id."""
        self._live_by_key: dict[TopicPartition, dict[int, Pending]] = {}
        """Those pending commits that no tombstone has deleted."""
        self._oldest: list[tuple[int, int, TopicPartition, Commit]] = []
        """A heap of the commits without an expire timestamp: the commit time, a number, the key, and the commit.

        A commit that is no longer in `committed` stays until it is the first one.
        """
        self._numbers = count()

    def commit(self, record: GroupRecord, group: GroupState) -> Iterator[Event]:
        """Yield the events of an offset record with a value. A pending commit has no event before its marker."""
        key = get_topic_partition(record.record)
        offset: int = cast(Any, record.record.value).offset
        if record.is_pending:
            pending = Pending(record, offset)
            self.pending.setdefault(record.producer_id, {})[key] = pending
            self._by_key.setdefault(key, {})[record.producer_id] = pending
            self._live_by_key.setdefault(key, {})[record.producer_id] = pending
            return
        old = self.committed.get(key)
        new_id = self._note_topic_id(key, record)
        is_routine = old is not None and offset >= old.offset and old.hole_count == self.hole_count and not new_id
        if is_routine and self.skips_routine:
            self._store(key, record, offset, old, group)
            return
        what = f"{self._describe_commit(key, old, offset)}{new_id}."
        self._store(key, record, offset, old, group)
        time_ms = _get_time(record)
        at = _Position(record.offset, time_ms)
        from_offset = None if old is None else old.offset
        yield self._event(
            at, "commit", what, group, key, from_offset=from_offset, to_offset=offset, is_routine=is_routine
        )
        yield from self._find_rewind(at, group, key, old, record, offset, new_id)

    def _describe_commit(self, key: TopicPartition, old: Commit | None, offset: int) -> str:
        """Return the beginning of a sentence about an offset that is committed now."""
        if old is None and key in self._deleted:
            return f"{key}: {offset}, the first commit after a deletion, {self._deleted[key]} before it"
        if old is None:
            return f"{key}: {offset}, the first {'in the log' if self.hole_count else 'commit'}"
        if offset == old.offset:
            return f"{key}: {offset} again"
        return f"{key}: {old.offset} -> {offset}"

    def _store(
        self, key: TopicPartition, record: GroupRecord, offset: int, old: Commit | None, group: GroupState
    ) -> None:
        if old is not None:
            self.replaced[record.offset] = old.offset
        commit = Commit(record, offset, self.hole_count)
        self.committed[key] = commit
        self._deleted.pop(key, None)
        position = self.positions.get(key)
        if position is None:
            at = record.offset
            self.positions[key] = RewoundPosition(key, self.partition, offset, at, offset, at)
        else:
            is_by_member = bool(group.members) and not record.is_pending
            position.move(offset, record.offset, is_by_member=is_by_member)
        self._store_last_move(key, record, offset)
        if get_expire_time(record) is None:
            commit_ms: int = cast(Any, record.record.value).commit_timestamp
            heapq.heappush(self._oldest, (commit_ms, next(self._numbers), key, commit))

    def _note_topic_id(self, key: TopicPartition, record: GroupRecord) -> str:
        """Store the id of the topic that a commit contains. Return the end of a sentence if the topic has a new id.

        The old positions of a topic that was created again are no longer the goal of the group.
        """
        topic_id = getattr(record.record.value, "topic_id", UUID.default)
        old_id = self.topic_ids.get(key.topic)
        if topic_id in (UUID.default, old_id):
            return ""
        self.topic_ids[key.topic] = topic_id
        is_new = topic_id not in self._seen_topic_ids
        self._seen_topic_ids.add(topic_id)
        if old_id is None or not is_new:
            return ""
        for positions in (self.positions, self.last_moves):
            for other in [other for other in positions if other.topic == key.topic]:
                del positions[other]
        return f"; the topic was created again: its id changed from {old_id} to {topic_id}"

    def _store_last_move(self, key: TopicPartition, record: GroupRecord, offset: int) -> None:
        time_ms = _get_time(record)
        last_move = self.last_moves.get(key)
        if last_move is None:
            self.last_moves[key] = Position(key, self.partition, offset, record.offset, time_ms, time_ms)
        else:
            last_move.commit(offset, record.offset, time_ms)

    def _find_rewind(
        self,
        at: _Position,
        group: GroupState,
        key: TopicPartition,
        old: Commit | None,
        record: GroupRecord,
        to_offset: int,
        new_id: str,
    ) -> Iterator[Event]:
        if old is None or to_offset >= old.offset:
            return
        what = (
            f"{key}: {old.offset} -> {to_offset}, back by {old.offset - to_offset}; "
            f"{_describe_origin(record, group)}{_describe_missing_epoch(old.group_record, record)}"
            f"{_describe_missing_metadata(old.group_record, record)}{new_id}."
        )
        self.rewinds[record.offset] = what
        yield self._event(at, "rewind", what, group, key, from_offset=old.offset, to_offset=to_offset)

    def end_transaction(self, marker: Marker, group: GroupState) -> Iterator[Event]:
        """Yield the events of a marker: one for each topic partition of the transaction, and the rewinds."""
        for key, pending in self.pending.pop(marker.producer_id, {}).items():
            _remove_producer(self._by_key, key, marker.producer_id)
            _remove_producer(self._live_by_key, key, marker.producer_id)
            old = self.committed.get(key)
            from_offset = None if old is None else old.offset
            at = _Position(marker.offset, time_or_none(marker.timestamp))
            end = "committed"
            to_offset = from_offset
            is_routine = False
            new_id = None
            if not marker.commits:
                end = "aborted"
                to_offset = pending.offset
                what = f"{key}: {pending.offset} of producer {marker.producer_id} was aborted."
            elif pending.deleted_by is not None:
                what = f"{key}: no change, because the pending {pending.offset} was deleted before."
            elif old is not None and not self._is_newer(pending.group_record, old.group_record):
                what = f"{key}: {old.offset} stays, committed after producer {marker.producer_id}'s {pending.offset}."
                if old.offset < pending.offset:
                    self.rewinds[old.group_record.offset] = (
                        f"{key}: {old.offset} replaces the pending {pending.offset} of producer {marker.producer_id}, "
                        f"back by {pending.offset - old.offset}."
                    )
            else:
                new_id = self._note_topic_id(key, pending.group_record)
                what = f"{self._describe_commit(key, old, pending.offset)}, by producer {marker.producer_id}{new_id}."
                is_forward = old is not None and pending.offset >= old.offset and old.hole_count == self.hole_count
                is_routine = is_forward and not new_id
                to_offset = pending.offset
                self._store(key, pending.group_record, pending.offset, old, group)
            yield self._event(
                at,
                f"transaction_{end}",
                what,
                group,
                key,
                from_offset=from_offset,
                to_offset=to_offset,
                producer_id=marker.producer_id,
                is_routine=is_routine,
            )
            if new_id is not None:
                yield from self._find_rewind(at, group, key, old, pending.group_record, pending.offset, new_id)

    def _is_newer(self, record: GroupRecord, other: GroupRecord) -> bool:
        if self.is_classic:
            return record.first_offset > other.first_offset
        return record.offset > other.offset

    def find_open_transactions(self) -> Iterator[tuple[GroupRecord, Event]]:
        """Yield an event for each pending commit at the end of the log, with the record of the commit."""
        for producer_id, commits in self.pending.items():
            for key, pending in commits.items():
                record = pending.group_record
                what = f"{key}: {pending.offset} is pending in producer {producer_id}'s transaction."
                if pending.deleted_by is not None:
                    what = f"{key}: {pending.offset} was deleted, but producer {producer_id}'s transaction is open."
                at = _Position(record.offset, _get_time(record))
                yield (
                    record,
                    Event(
                        self.partition,
                        at.offset,
                        at.timestamp_ms,
                        "transaction_open",
                        what,
                        topic_partition=key,
                        to_offset=pending.offset,
                        producer_id=producer_id,
                    ),
                )

    def delete(self, tombstones: list[GroupRecord], group: GroupState, *, deletes_group: bool) -> Iterator[Event]:
        """Yield the events of the offset tombstones in one batch.

        `deletes_group` says whether a tombstone of the group follows in the same batch. Then the deletion of the group
        is the only event of offsets that did not expire.
        """
        deletions = []
        for tombstone in tombstones:
            key = get_topic_partition(tombstone.record)
            deletes_committed = not (self.is_classic and tombstone.is_pending)
            old = self.committed.pop(key, None) if deletes_committed else None
            deletions.append((tombstone, key, old))
        # `committed` now contains only the offsets that no tombstone of the batch deletes.
        oldest_begin_ms = self._find_oldest_begin(group) if any(old for _, _, old in deletions) else None
        # The classic coordinator deletes the group in the same batch if the topic of its last offsets is deleted.
        can_be_topic = self.is_classic and len({key.topic for _, key, _ in deletions}) == 1
        for tombstone, key, old in deletions:
            pending = self._delete_pending(key, tombstone)
            at = _Position(tombstone.offset, time_or_none(tombstone.timestamp))
            if old is None:
                self.causes[at.offset] = Cause.UNKNOWN
                if not deletes_group:
                    what = self._describe_unknown(key, pending, tombstone)
                    yield self._event(at, "offset_deleted", what, group, key)
                continue
            self._deleted[key] = old.offset
            self.positions.pop(key, None)
            self.last_moves.pop(key, None)
            expiry = judge_expiry(key, old.group_record, tombstone, group, oldest_begin_ms, self.retention_ms)
            if expiry is Expiry.IMPOSSIBLE and deletes_group:
                self.causes[at.offset] = Cause.UNKNOWN if can_be_topic else Cause.GROUP_DELETED
            elif expiry is Expiry.IMPOSSIBLE:
                causes = self._find_causes(key, group)
                self.causes[at.offset] = causes[0] if len(causes) == 1 else Cause.UNKNOWN
            else:
                self.causes[at.offset] = Cause.EXPIRED if expiry is Expiry.CERTAIN else Cause.UNKNOWN
            if expiry is not Expiry.IMPOSSIBLE:
                what = f"{key}: {old.offset} {_describe_expiry(key, old.group_record, tombstone, group, expiry)}"
                event = self._event(at, "expired", what, group, key, from_offset=old.offset)
                yield replace(event, can_be_request=expiry is Expiry.POSSIBLE)
            elif not deletes_group:
                what = f"{key}: {old.offset} deleted, {self._describe_deletion(key, group)}."
                yield self._event(at, "offset_deleted", what, group, key, from_offset=old.offset)

    def _delete_pending(self, key: TopicPartition, tombstone: GroupRecord) -> Pending | None:
        """Delete the pending commits that a tombstone deletes. Return the last of them."""
        commits = self._live_by_key.get(key, {})
        deleted_ids = list(commits)
        if self.is_classic:
            deleted_ids = [tombstone.producer_id] if tombstone.is_pending and tombstone.producer_id in commits else []
        deleted = None
        for producer_id in deleted_ids:
            deleted = commits[producer_id]
            deleted.deleted_by = tombstone.offset
            _remove_producer(self._live_by_key, key, producer_id)
        return deleted

    def _find_oldest_begin(self, group: GroupState) -> int | None:
        """Return the time from which the retention time of the oldest committed offset counts, in ms since 1970.

        Offsets that may not expire, and offsets with an expire timestamp, are left out. None if there is no other one.
        """
        while self._oldest and self.committed.get(self._oldest[0][2]) is not self._oldest[0][3]:
            heapq.heappop(self._oldest)
        if not self._oldest:
            return None
        _, _, oldest_key, oldest = self._oldest[0]
        begin_ms = None
        if oldest_key not in self._by_key:
            begin_ms = find_retention_begin(oldest_key, oldest.group_record, group)
        if begin_ms is not None:
            return begin_ms
        begins = [
            find_retention_begin(key, commit.group_record, group)
            for key, commit in self.committed.items()
            if key not in self._by_key and get_expire_time(commit.group_record) is None
        ]
        return min((begin for begin in begins if begin is not None), default=None)

    def _describe_unknown(self, key: TopicPartition, pending: Pending | None, tombstone: GroupRecord) -> str:
        if pending is not None:
            return f"{key}: the pending {pending.offset} was deleted."
        if tombstone.is_pending:
            return f"{key}: a tombstone in a transaction, which deletes no committed offset."
        if self.hole_count:
            return f"{key}: an offset was deleted, whose commit is not in the log."
        return f"{key}: a tombstone without a commit in the log."

    def _describe_deletion(self, key: TopicPartition, group: GroupState) -> str:
        """Return which requests can have deleted an offset that did not expire."""
        return " or ".join(_WORDS[cause] for cause in self._find_causes(key, group)) or "for an unknown reason"

    def _find_causes(self, key: TopicPartition, group: GroupState) -> list[Cause]:
        """Return the possible causes of the deletion of an offset that did not expire."""
        causes = [] if group.subscribes(key.topic) else [Cause.OFFSET_DELETED]
        if not any(other.topic == key.topic for other in self.committed):
            causes.append(Cause.TOPIC_DELETED)
        if self.is_classic and group.type is None and not self.committed:
            causes.append(Cause.GROUP_DELETED)
        return causes

    def find_rewound(self) -> list[RewoundPosition]:
        """Return the positions that went back since the last deletion of their offset."""
        return [position for position in self.positions.values() if position.rereads]

    def has_offsets(self) -> bool:
        """Return whether the group has a committed or a pending offset."""
        return bool(self.committed or self._live_by_key)

    def _event(
        self, at: _Position, name: str, what: str, group: GroupState, key: TopicPartition, **fields: Any
    ) -> Event:
        """Return an event of an offset. `fields` are further fields of Event."""
        place = (self.partition, at.offset, at.timestamp_ms)
        return Event(*place, name, what, group.generation, topic_partition=key, **fields)


def _remove_producer(by_key: dict[TopicPartition, dict[int, Pending]], key: TopicPartition, producer_id: int) -> None:
    """Remove the pending commit of a producer for a topic partition, if it is there."""
    commits = by_key.get(key, {})
    commits.pop(producer_id, None)
    if not commits:
        by_key.pop(key, None)


class _Position(NamedTuple):
    """Where and when an event happened: the offset in the log, and the time in ms since 1970."""

    offset: int
    timestamp_ms: int | None


def _describe_origin(record: GroupRecord, group: GroupState) -> str:
    """Return who committed an offset. The coordinator takes commits without a member only if the group has no member.

    A commit in a transaction is an exception: its request need not name a member.
    Source: GroupCoordinator.validateOffsetCommit and validateTxnOffsetCommit (3.9.2), ClassicGroup (4.3.1).
    """
    if group.type is None:
        return "no member is known"
    if not group.members:
        return "the group had no member"
    return "in a transaction, and the group had members" if record.is_pending else "set by a member"


def _describe_missing_epoch(old: GroupRecord, record: GroupRecord) -> str:
    """Return that a commit has no leader epoch although the commit before had one. Otherwise return "".

    A Java consumer commits the epoch of the last record that it consumed. Kafka's tools and many other programs do not.
    """
    if _get_leader_epoch(old) < 0 or _get_leader_epoch(record) >= 0:
        return ""
    return "; no leader epoch, the commit before had one"


def _describe_missing_metadata(old: GroupRecord, record: GroupRecord) -> str:
    """Return that a commit has no metadata although the commit before had some. Otherwise return ""."""
    old_metadata: str | None = getattr(old.record.value, "metadata", None)
    metadata: str | None = getattr(record.record.value, "metadata", None)
    if not old_metadata or metadata:
        return ""
    return "; no metadata, the commit before had some"


def _get_leader_epoch(record: GroupRecord) -> int:
    epoch: int = getattr(record.record.value, "leader_epoch", -1)
    return epoch


def _get_time(record: GroupRecord) -> int | None:
    """Return the time of a commit. Records of magic 0 have no time, but their values have one."""
    if record.timestamp != NO_TIMESTAMP:
        return record.timestamp
    return time_or_none(cast(Any, record.record.value).commit_timestamp)


def _describe_expiry(
    key: TopicPartition, commit: GroupRecord, tombstone: GroupRecord, group: GroupState, expiry: Expiry
) -> str:
    expire_ms = get_expire_time(commit)
    if expire_ms is not None:
        retention = describe_duration(expire_ms - cast(Any, commit.record.value).commit_timestamp)
        return f"expired, retention time {retention}."
    end = "" if expiry is Expiry.CERTAIN else ", or was deleted by a request"
    if group.members and not group.subscribes(key.topic):
        since = group.lost_at.get(key.topic)
        end += f"; the group has members, but none subscribes to {key.topic}"
        end += "" if since is None else f" since record {since}"
    begin_ms = find_retention_begin(key, commit, group)
    if begin_ms is None or tombstone.timestamp == NO_TIMESTAMP:
        return f"expired{end}."
    return f"expired after {describe_duration(tombstone.timestamp - begin_ms)}{end}."
