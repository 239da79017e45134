"""The events of a group's offsets: commits, rewinds, transactions, and deletions.

The committed and the pending offsets follow the rules of the coordinator (groups/offsets.py). A commit in a transaction
takes effect at the marker, and only if no later record has committed the topic partition.

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

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from kafkagroups.groups.group import CONSUMER
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.helpers import MAX_INT64
from kafkagroups.history.event import MIN_STEP_MS, Cause, Event, Position, Recreation
from kafkagroups.history.finding import count_of, describe_duration, list_groups, list_names, name_record
from kafkagroups.history.group_events import GroupEvents, Place, get_time
from kafkagroups.history.group_log import GroupRecord, Marker
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.batch import NO_TIMESTAMP
from kafkagroups.records.wire import UUID

MIN_RETENTION_MS = 60_000
"""The smallest value of offsets.retention.minutes, in ms."""
_NO_MEMBER = "the group had no member"
_REQUEST_OR_TOPIC = [Cause.OFFSET_DELETED, Cause.TOPIC_DELETED]
_WORDS = {
    Cause.OFFSET_DELETED: "by request",
    Cause.TOPIC_DELETED: "with the topic",
    Cause.GROUP_DELETED: "with the group",
}


class Deletion(NamedTuple):
    """The newest commit of a topic partition, its tombstone, and why it was deleted; or the record of the group with
    which a coordinator began anew that had forgotten it.

    `causes` are those that the log allows before a later commit decides. `expiry` is "", or says that the offset
    expired if the broker's retention time is shorter than the given one.
    """

    commit: GroupRecord
    tombstone: GroupRecord
    cause: Cause
    causes: list[Cause]
    expiry: str = ""

    def is_in_same_topic(self, later: GroupRecord) -> bool | None:
        """Return whether a later commit is of the topic that the deleted one was of; None if the log does not tell."""
        is_same_topic = has_same_topic(self.commit, later)
        return False if is_same_topic is None and self.cause is Cause.TOPIC_DELETED else is_same_topic


def has_same_topic(commit: GroupRecord, later: GroupRecord) -> bool | None:
    """Return whether two commits have the same topic id; None if one of them has none."""
    ids = {getattr(each.value, "topic_id", UUID.default) for each in (commit, later)}
    return None if UUID.default in ids else len(ids) == 1


class PartitionHistory:
    """The group and its offsets in one partition, after some records of the log, and their events.

    `group` has the events of the group itself, and `events` those of both, in the end. `pending` has the pending
    offsets by producer id. `retention_ms` is the broker's offsets.retention.minutes in ms, if it is known. The caller
    sets `is_classic`, which says whether the classic coordinator wrote the next record, and `next_ms`, the earliest
    time from its batch on.
    """

    def __init__(self, topic: OpenTopic, partition: int | None, retention_ms: int | None) -> None:
        self.group = GroupEvents(topic, partition)
        self.events: list[Event] = []
        self.retention_ms = retention_ms
        self.is_classic = True
        self.next_ms = MAX_INT64
        self.committed: dict[TopicPartition, GroupRecord] = {}
        self.pending: dict[int, dict[TopicPartition, GroupRecord]] = {}
        self._continued: set[TopicPartition] = set()
        """The topic partitions that were committed after the last hole of the log."""
        self._deleted_pending: set[int] = set()
        """The records of pending commits that a tombstone deleted."""
        self.decided: dict[int, str] = {}
        """By the offset of a tombstone: the sentence about it, if a later commit decides who wrote it."""
        self.positions: dict[TopicPartition, Position] = {}
        """How far each topic partition had been, since the last deletion of its offset."""
        self.topic_ids: dict[str, str] = {}
        """The newest id of each topic, as far as commits contain it."""
        self._seen_topic_ids: set[str] = set()
        self._first_records: dict[TopicPartition, dict[int, int]] = {}
        self._deleted: dict[TopicPartition, Deletion] = {}
        """The topic partitions whose newest offset was deleted."""
        self.recreated: dict[str, Recreation] = {}

    def note_hole(self) -> None:
        self.group.has_hole = True
        self._continued.clear()

    def apply_batch(self, records: list[GroupRecord]) -> Iterator[Event]:
        runs = [list(run) for _, run in groupby(records, key=lambda each: each.is_offset and (each.value is None,))]
        deletion = ""
        group_cause = Cause.GROUP_DELETED
        for run, following in zip(runs, [*runs[1:], []], strict=True):
            if not run[0].is_offset:
                old_type = self.group.state.type
                for event in self.group.apply(run):
                    if event.event == "deleted":
                        event = replace(event, what=deletion or self._describe_deletion(old_type))
                        for record in run:
                            record.entry.cause = group_cause if record.value is None else None
                    yield event
                    if event.offset == self.group.forgotten_at:
                        self.forget(run[-1])
            elif run[0].value is not None:
                for record in run:
                    if record.is_pending:  # It has no event before its marker.
                        self.pending.setdefault(record.producer_id, {})[record.key] = record
                    else:
                        yield from self._commit(record, record, "commit")
            else:
                events = list(self.delete(run, deletes_group=any(each.ends_group for each in following)))
                yield from events
                deletion = self._describe_deletion_with(run, can_expire=bool(events))
                if any(record.entry.cause is Cause.EXPIRED for record in run):
                    group_cause = Cause.EXPIRED

    def _describe_deletion_with(self, tombstones: list[GroupRecord], *, can_expire: bool) -> str:
        keys = [record.key for record in tombstones]
        empty_ms = self.group.state.empty_since_ms
        age_ms = -1 if empty_ms is None else tombstones[0].timestamp - empty_ms
        since = f", {describe_duration(age_ms)} after its last member left" if age_ms >= 0 else ""
        what = f"The group was deleted with {count_of(len(keys), 'offset')}{since}: {list_names(keys)}"
        # The classic coordinator deletes the group in the same batch if the topic of its last offsets is deleted.
        can_be_topic = self.is_classic and all(each.entry.cause is not Cause.EXPIRED for each in tombstones)
        what += f", or with the topic{'s' * (len({key.topic for key in keys}) > 1)}" if can_be_topic else ""
        can_be_shorter = self.retention_ms is not None and not can_expire
        can_be_shorter &= empty_ms is None or age_ms >= MIN_RETENTION_MS
        can_be_shorter &= all(self._deleted[key].expiry for key in keys if key in self._deleted)
        what += ", or its offsets expired, if the broker's retention time is shorter" if can_be_shorter else ""
        return f"{what}{self.describe_wrong_clock(tombstones[0])}."

    def _describe_deletion(self, old_type: str | None) -> str:
        if old_type == "share":
            return "The group was deleted. Its offsets were not in this log, but in the topic __share_group_state."
        if self.has_offsets():
            return "The group was deleted without its offsets."
        if old_type is None:
            return "A tombstone of the group, without a group record in the log."
        return "The group was deleted, and had no offset."

    def _commit(self, at: Place, record: GroupRecord, name: str, by: str = "", **fields: Any) -> Iterator[Event]:
        key = record.key
        offset: int = record.value.offset
        old = self.committed.get(key)
        new_id = self._note_topic_id(key, record)
        moved: dict[str, Any] = {"from_offset": None if old is None else old.value.offset, "to_offset": offset}
        is_continued = key in self._continued
        is_back = old is not None and offset < old.value.offset
        is_routine = is_continued and not is_back and not new_id
        position = self.positions.get(key) if is_continued else None
        ahead = "" if position is None or old is None else self._describe_skip(position, old, record)
        unread = ""
        if position is not None and position.is_set and self._is_by_member(record):
            unread = f"; nothing shows that the group has read up to {position.now}"
        known = self._first_records.setdefault(key, {}).setdefault(offset, record.offset)
        is_known = old is None and not record.is_pending and not self.group.has_hole
        if is_known and self._describe_committer(record) == _NO_MEMBER:
            by = f"; {_NO_MEMBER}"
        what = f"{self._describe_commit(record, old, new_id)}{by}{new_id}."
        deletion = self._deleted.get(key) if old is None and not new_id else None
        if deletion is not None and offset != deletion.commit.value.offset:
            is_same_topic = deletion.is_in_same_topic(record) is not False
            record.entry.skipped = is_same_topic and offset > deletion.commit.value.offset
            record.entry.went_back = is_same_topic and offset < deletion.commit.value.offset
            record.entry.what = what
        reset = ""
        if old is not None and is_back:
            reset = _describe_truncation(old, record)
            if position is not None and position.is_of_old_topic:
                reset = f"; {old.value.offset} was a position in the topic before"
            if reset:
                self.positions.pop(key, None)
                self._first_records[key] = {offset: known}
        self._store(key, record, offset, old)
        yield self._event(at, name, what, key, is_routine=is_routine, **moved, **fields)
        if old is not None and (ahead or is_back):
            origin = self._describe_origin(old, record)
            how = ahead
            if is_back:
                first = name_record(self.group.partition, known)
                repeated = "" if known == record.offset else f", to what {first} committed"
                how = f"back by {old.value.offset - offset}{repeated}{unread}"
            what = f"{key}: {old.value.offset} -> {offset}, {how}; {origin}{self._name_owner(key)}{reset}{new_id}."
            record.entry.went_back = is_back
            record.entry.skipped = not is_back
            record.entry.what = what
            yield self._event(at, "rewind" if is_back else "skip", what, key, origin=origin, **moved)

    def _describe_commit(self, record: GroupRecord, old: GroupRecord | None, new_id: str) -> str:
        key = record.key
        offset: int = record.value.offset
        if old is None and key in self._deleted:
            is_same_topic = self._deleted[key].is_in_same_topic(record)
            deleted: int = self._deleted[key].commit.value.offset
            how = "deleted" if self._deleted[key].tombstone.value is None else "forgotten"
            what = f"{key}: {offset}, the first commit after {deleted} was {how}"
            if is_same_topic is False:
                doubt = ", or it is a position in the old topic" if offset >= deleted else ""
                skipped = f"at most 0 to {offset - 1} are skipped, unless the group began at the start{doubt}"
                return f"{what}: in a new topic, {skipped}" if offset else what
            is_new = "" if is_same_topic else " the topic was created again"
            if offset > deleted and not new_id:
                start = f"unless the group began at the start{is_new and f', or{is_new} (then from 0)'}"
                return f"{what}: at most {deleted} to {offset - 1} are skipped, {start}"
            if offset < deleted:
                return f"{what}: at least {offset} to {deleted - 1} is read again{is_new and f', unless{is_new}'}"
            return what
        if old is None:
            return f"{key}: {offset}, the first {'in the log' if self.group.has_hole else 'commit'}"
        if offset == old.value.offset:
            return f"{key}: {offset} again"
        return f"{key}: {old.value.offset} -> {offset}"

    def _store(self, key: TopicPartition, record: GroupRecord, offset: int, old: GroupRecord | None) -> None:
        record.entry.replaced = None if old is None else old.value.offset
        self.committed[key] = record
        self._continued.add(key)
        deletion = self._deleted.pop(key, None)
        before = old if deletion is None else deletion.commit
        is_same_topic = None if before is None else has_same_topic(before, record)
        if deletion is not None and deletion.causes == _REQUEST_OR_TOPIC and is_same_topic is not None:
            reason = f"probably with the topic: record {record.offset} has another topic id"
            if is_same_topic:
                deletion.tombstone.entry.cause = Cause.UNKNOWN if deletion.expiry else Cause.OFFSET_DELETED
                reason = f"by request{deletion.expiry}: record {record.offset} has the same topic id"
            self.decided[deletion.tombstone.offset] = f"{key}: {deletion.commit.value.offset} deleted, {reason}."
        elif deletion is not None and not is_same_topic and deletion.cause in (Cause.TOPIC_DELETED, Cause.UNKNOWN):
            self._note_return(key.topic, record, deletion)
        is_in_new_topic = (is_same_topic if deletion is None else deletion.is_in_same_topic(record)) is False
        position = self.positions.get(key)
        is_outside = not self.group.state.members and not record.is_pending
        owner, _ = self.group.find_members_by_partition().get(key, ("", None))
        if position is None:
            position = Position(key, self.group.partition, offset, record.offset, get_time(record))
            self.positions[key] = position
            position.is_set = not (self.group.state.members or record.is_pending or _has_leader_epoch(record))
            if is_in_new_topic and before is not None:
                is_ahead = deletion is not None and offset > before.value.offset
                position.is_of_old_topic = is_ahead or offset == before.value.offset
        else:
            position.is_of_old_topic &= offset == position.now
            is_by_member = self._is_by_member(record)
            late = position.late if is_by_member else None
            if late is not None and (self.group.empty_at > position.record or len({late.owner, owner, ""}) == 3):
                late.start = position.now  # A new owner has begun there.
                late.can_be_late = False
            at = (offset, record.offset, get_time(record))
            is_set = is_outside and self.group.empty_at >= 0 and offset - position.now > position.longest_step
            position.commit(*at, is_by_member=is_by_member, is_set=is_set, owner=owner, metadata=record.value.metadata)
        position.owner = owner or position.owner
        position.note_form(offset, _describe_form(record), is_outside=is_outside)

    def _is_by_member(self, record: GroupRecord) -> bool:
        return bool(self.group.state.members) and not record.is_pending

    def _note_return(self, topic: str, record: GroupRecord, deletion: Deletion) -> None:
        """Note the first commit to a topic partition after its deletion.

        If only the deletion of the topic can have deleted the offset, the commit shows a new topic, because a broker
        refuses commits of a topic that does not exist (KafkaApis.handleOffsetCommitRequest). Otherwise, a new topic is
        likely if all first commits are lower than those before.
        """
        is_certain = deletion.cause is Cause.TOPIC_DELETED
        sign = Recreation(topic, record.offset, get_time(record), None, deletion.tombstone.timestamp, is_certain)
        known = self.recreated.setdefault(topic, sign)
        if known.ids is not None or known.is_certain:
            return
        if is_certain:
            self.recreated[topic] = sign
        elif record.value.offset >= deletion.commit.value.offset:
            del self.recreated[topic]

    def _note_topic_id(self, key: TopicPartition, record: GroupRecord) -> str:
        """The old positions of a topic that was created again are no longer the goal of the group."""
        topic_id = getattr(record.value, "topic_id", UUID.default)
        old_id = self.topic_ids.get(key.topic)
        if topic_id == UUID.default:
            return ""
        self.topic_ids[key.topic] = topic_id
        is_new = topic_id not in self._seen_topic_ids
        self._seen_topic_ids.add(topic_id)
        if old_id is None or not is_new:
            return ""
        self.recreated[key.topic] = Recreation(key.topic, record.offset, get_time(record), (old_id, topic_id))
        self.positions = {other: found for other, found in self.positions.items() if other.topic != key.topic}
        self._first_records = {other: found for other, found in self._first_records.items() if other.topic != key.topic}
        return f"; the topic was created again: its id changed from {old_id} to {topic_id}"

    def _describe_origin(self, old: GroupRecord, record: GroupRecord) -> str:
        """Who can have committed a record that is out of the usual, and what the commit before had and it has not.

        A Java consumer commits the epoch of the last record that it consumed, but Kafka's tools do not.
        """
        parts = [self._describe_committer(record)]
        if _lost_leader_epoch(old, record):
            parts.append("no leader epoch, the commit before had one")
        if getattr(old.value, "metadata", None) and not getattr(record.value, "metadata", None):
            parts.append("no metadata, the commit before had some")
        return "; ".join(parts)

    def _describe_skip(self, position: Position, old: GroupRecord, record: GroupRecord) -> str:
        """Return how far a commit goes beyond what a member can have read; "" if a member can have read everything.

        What is committed after the last member has left was set from outside. A program without members can go on from
        there, too, but in its usual steps, and with leader epochs if it had them.
        """
        step = record.value.offset - position.now
        if position.skips(record.value.offset):
            return f"ahead by {step}; its longest step before was {position.longest_step}"
        is_outside = self._describe_committer(record) == _NO_MEMBER and not record.is_pending
        is_first = position.highest_record < self.group.empty_at and record.value.offset > position.highest
        is_set = is_outside and is_first and (step > position.longest_step or _lost_leader_epoch(old, record))
        # A reset or a seek has just placed the consumer there.
        is_placed = step > position.longest_step and self._is_by_member(record) and _lost_leader_epoch(old, record)
        return f"ahead by {step}" if is_set or is_placed else ""

    def _describe_committer(self, record: GroupRecord) -> str:
        """The coordinator takes commits without a member only if the group has none, except in a transaction.

        Source: GroupCoordinator.validateOffsetCommit and validateTxnOffsetCommit (3.9.2), ClassicGroup (4.3.1).
        """
        if self.group.state.type is None:
            return "no member is known"
        if not self.group.state.members:
            return _NO_MEMBER
        return "in a transaction, and the group had members" if record.is_pending else "set by a member"

    def _name_owner(self, key: TopicPartition) -> str:
        owner = self.group.find_members_by_partition().get(key)
        return "" if owner is None else f" ({owner[1].name} has the partition)"

    def end_transaction(self, marker: Marker) -> Iterator[Event]:
        """Yield the events of a marker: one for each topic partition of the transaction, and the rewinds."""
        for key, record in self.pending.pop(marker.producer_id, {}).items():
            offset: int = record.value.offset
            old = self.committed.get(key)
            from_offset: int | None = None if old is None else old.value.offset
            if not marker.commits:
                what = f"{key}: {offset} of producer {marker.producer_id} was aborted."
            elif record.offset in self._deleted_pending:
                what = f"{key}: no change, because the pending {offset} was deleted before."
            elif old is not None and not self._is_newer(record, old):
                what = f"{key}: {from_offset} stays, committed after producer {marker.producer_id}'s {offset}."
                if old.value.offset < offset:
                    old.entry.went_back = True
                    earlier = f"the earlier {offset} of producer {marker.producer_id}"
                    old.entry.what = f"{key}: {from_offset} wins over {earlier}, back by {offset - old.value.offset}."
            else:
                by = f", by producer {marker.producer_id}"
                yield from self._commit(marker, record, "transaction_committed", by, producer_id=marker.producer_id)
                continue
            name, to_offset = ("committed", from_offset) if marker.commits else ("aborted", offset)
            fields = {"from_offset": from_offset, "to_offset": to_offset, "producer_id": marker.producer_id}
            yield self._event(marker, f"transaction_{name}", what, key, **fields)

    def _is_newer(self, record: GroupRecord, other: GroupRecord) -> bool:
        return record.first_offset > other.first_offset if self.is_classic else record.offset > other.offset

    def find_open_transactions(self) -> Iterator[Event]:
        """Yield an event for each pending commit at the end of the log."""
        for producer_id, commits in self.pending.items():
            for key, record in commits.items():
                offset = record.value.offset
                what = f"{key}: {offset} is pending in producer {producer_id}'s transaction."
                if record.offset in self._deleted_pending:
                    what = f"{key}: {offset} was deleted, but producer {producer_id}'s transaction is open."
                fields = {"to_offset": offset, "producer_id": producer_id}
                yield self._event(record, "transaction_open", what, key, generation=None, **fields)

    def delete(self, tombstones: list[GroupRecord], *, deletes_group: bool) -> Iterator[Event]:
        """Yield the events of the offset tombstones in one batch.

        If a tombstone of the group follows in the batch (`deletes_group`), only offsets that expired have events. The
        last event is that of a group that the classic coordinator then no longer has.
        """
        had_offsets = self.has_offsets()
        deletions = [
            (each, None if self.is_classic and each.is_pending else self.committed.pop(each.key, None))
            for each in tombstones
        ]
        # `committed` now contains only the offsets that no tombstone of the batch deletes.
        oldest_begin_ms = self._find_oldest_begin() if any(old for _, old in deletions) else None
        for tombstone, old in deletions:
            key = tombstone.key
            causes: list[Cause] = []
            pending = self._delete_pending(key, tombstone)
            if old is None:
                tombstone.entry.cause = Cause.UNKNOWN
                if not deletes_group:
                    found = "a tombstone without a commit in the log"
                    what = found if pending is None else f"the pending {pending.value.offset} was deleted"
                    yield self._event(tombstone, "offset_deleted", f"{key}: {what}.", key)
                continue
            from_offset: int = old.value.offset
            self.positions.pop(key, None)
            self._first_records.pop(key, None)
            self._continued.discard(key)
            expiry = self._describe_shorter_retention(old, tombstone)
            cause = self._judge_expiry(old, tombstone, oldest_begin_ms)
            if cause is not None:
                can_be_request = cause is Cause.UNKNOWN
                what = f"{key}: {from_offset} {self._describe_expiry(old, tombstone, can_be_request)}"
                fields = {"from_offset": from_offset, "can_be_request": can_be_request}
                yield self._event(tombstone, "expired", what, key, **fields)
            elif deletes_group:
                # The classic coordinator deletes the group in the same batch if the topics of its offsets are deleted.
                cause = Cause.UNKNOWN if self.is_classic else Cause.GROUP_DELETED
            else:
                causes = self._find_causes(key)
                cause = causes[0] if len(causes) == 1 else Cause.UNKNOWN
                reason = " or ".join(_WORDS[each] for each in causes) or "for an unknown reason"
                batch = "" if len(causes) == 1 else _describe_batch(tombstone, tombstones)
                what = f"{key}: {from_offset} deleted, {reason}{expiry}{batch}."
                yield self._event(tombstone, "offset_deleted", what, key, from_offset=from_offset)
            tombstone.entry.cause = cause
            if any(other.topic == key.topic for other in self.committed):
                cause = Cause.OFFSET_DELETED  # The topic still exists.
            self._deleted[key] = Deletion(old, tombstone, cause, causes, expiry)
        has_group = self.group.state.type is not None or self.has_offsets()
        if self.is_classic and had_offsets and not has_group and not deletes_group:
            what = "The group has no offset and no group record left."
            yield self.group.make_event(tombstones[-1], "deleted", what)

    def _delete_pending(self, key: TopicPartition, tombstone: GroupRecord) -> GroupRecord | None:
        deleted = None
        for producer_id, commits in self.pending.items():
            is_of_producer = tombstone.is_pending and producer_id == tombstone.producer_id
            record = commits.get(key) if is_of_producer or not self.is_classic else None
            if record is not None and record.offset not in self._deleted_pending:
                deleted = record
                self._deleted_pending.add(record.offset)
        return deleted

    def _find_oldest_begin(self) -> int | None:
        """Offsets that may not expire, and those with an expire timestamp, are left out."""
        pending_keys = {key for commits in self.pending.values() for key in commits}
        begins = [
            self._find_retention_begin(commit)
            for key, commit in self.committed.items()
            if key not in pending_keys and _get_expire_time(commit) is None
        ]
        return min((begin for begin in begins if begin is not None), default=None)

    def _find_retention_begin(self, commit: GroupRecord) -> int | None:
        group = self.group.state
        commit_ms: int = commit.value.commit_timestamp
        if group.members:
            never_expires = group.type == "classic" and group.protocol_type != CONSUMER
            return None if never_expires or group.subscribes(commit.key.topic) else commit_ms
        if group.type == "classic" and group.protocol_type and group.empty_since_ms is not None:
            return group.empty_since_ms
        return commit_ms

    def _judge_expiry(self, commit: GroupRecord, tombstone: GroupRecord, oldest_begin_ms: int | None) -> Cause | None:
        """Return EXPIRED or UNKNOWN if the offset did or can have expired; None if it cannot.

        `oldest_begin_ms` is that of the offsets that the batch does not delete. An older one would have expired first.
        """
        if tombstone.timestamp == NO_TIMESTAMP:
            return Cause.UNKNOWN
        expire_ms = _get_expire_time(commit)
        if expire_ms is not None:
            return Cause.EXPIRED if tombstone.timestamp >= expire_ms else None
        begin_ms = self._find_retention_begin(commit)
        shortest_ms = MIN_RETENTION_MS if self.retention_ms is None else self.retention_ms
        if begin_ms is None or tombstone.timestamp - begin_ms < shortest_ms:
            return None
        if oldest_begin_ms is not None and oldest_begin_ms <= begin_ms:
            return None
        return Cause.UNKNOWN if self.retention_ms is None else Cause.EXPIRED

    def _describe_expiry(self, commit: GroupRecord, tombstone: GroupRecord, can_be_request: bool) -> str:
        group = self.group.state
        topic = commit.key.topic
        expire_ms = _get_expire_time(commit)
        if expire_ms is not None:
            return f"expired, retention time {describe_duration(expire_ms - commit.value.commit_timestamp)}."
        end = ", or was deleted by a request" if can_be_request else ""
        end += " or with the topic" if can_be_request and all(other.topic != topic for other in self.committed) else ""
        end += self.describe_wrong_clock(tombstone)
        if group.members and not group.subscribes(topic):
            since = group.lost_at.get(topic)
            end += f"; the group has members, but none subscribes to {topic}"
            end += "" if since is None else f" since record {since}"
        begin_ms = self._find_retention_begin(commit)
        if begin_ms is None or tombstone.timestamp == NO_TIMESTAMP:
            return f"expired{end}."
        return f"expired after {describe_duration(tombstone.timestamp - begin_ms)}{end}."

    def describe_wrong_clock(self, tombstone: GroupRecord) -> str:
        """Say so if the time until a tombstone was not as long as its timestamp says."""
        ahead_ms = tombstone.timestamp - self.next_ms
        text = f"; a later record has a time {describe_duration(ahead_ms)} earlier, so a broker's clock was wrong"
        return text if ahead_ms >= MIN_STEP_MS else ""

    def _describe_shorter_retention(self, commit: GroupRecord, tombstone: GroupRecord) -> str:
        begin_ms = None if self.retention_ms is None else self._find_retention_begin(commit)
        age_ms = -1 if begin_ms is None else tombstone.timestamp - begin_ms
        shorter = f", or expired after {describe_duration(age_ms)}, if the broker's retention time is shorter"
        shorter += self.describe_wrong_clock(tombstone)
        return shorter if age_ms >= MIN_RETENTION_MS and _get_expire_time(commit) is None else ""

    def _find_causes(self, key: TopicPartition) -> list[Cause]:
        group = self.group.state
        causes = [] if group.subscribes(key.topic) else [Cause.OFFSET_DELETED]
        if not any(other.topic == key.topic for other in self.committed):
            causes.append(Cause.TOPIC_DELETED)
        if self.is_classic and group.type is None and not self.committed:
            causes.append(Cause.GROUP_DELETED)
        return causes

    def forget(self, record: GroupRecord) -> None:
        """Let the next commits be the first ones, because the coordinator began anew with this record of the group."""
        for key, old in self.committed.items():
            self._deleted[key] = Deletion(old, record, Cause.GROUP_DELETED, [])
        for known in (self.committed, self.positions, self._first_records, self._continued):
            known.clear()

    def has_offsets(self) -> bool:
        pending = (record.offset for commits in self.pending.values() for record in commits.values())
        return bool(self.committed) or not self._deleted_pending.issuperset(pending)

    def _event(self, at: Place, name: str, what: str, key: TopicPartition, **fields: Any) -> Event:
        return self.group.make_event(at, name, what, topic_partition=key, **fields)


def _describe_batch(tombstone: GroupRecord, tombstones: list[GroupRecord]) -> str:
    """Say which offsets the batch also deletes: a request is about one group, and a topic about the offsets of all."""
    if tombstone.deleted_with:
        return f"; the same batch deletes offsets of {list_groups(tombstone.deleted_with)}"
    others = [each.key for each in tombstones if each.key.topic != tombstone.key.topic]
    return f"; the same batch deletes {list_names(others)}" if others else ""


def _describe_form(record: GroupRecord) -> str:
    """What the commits of one program have in common."""
    epochs = f"with{'' if _has_leader_epoch(record) else 'out'} leader epochs"
    metadata = f"with{'' if record.value.metadata else 'out'} metadata"
    return f"{epochs}, {metadata}{', in transactions' if record.is_pending else ''}"


def _describe_truncation(old: GroupRecord, record: GroupRecord) -> str:
    """A consumer commits the leader epoch of the last record that it consumed, and these rise with the offsets."""
    before, now = (getattr(each.value, "leader_epoch", -1) for each in (old, record))
    what = (
        f"; with a higher leader epoch ({before} -> {now}): the topic can have lost its end (unclean election), or can "
        "have been created again, and then nothing is read again"
    )
    return what if 0 <= before < now else ""


def _lost_leader_epoch(old: GroupRecord, record: GroupRecord) -> bool:
    return _has_leader_epoch(old) and not _has_leader_epoch(record)


def _has_leader_epoch(record: GroupRecord) -> bool:
    return getattr(record.value, "leader_epoch", -1) >= 0


def _get_expire_time(commit: GroupRecord) -> int | None:
    expire_ms = getattr(commit.value, "expire_timestamp", -1)
    return None if expire_ms == -1 else expire_ms
