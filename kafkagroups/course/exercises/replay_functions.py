"""Functions that the learner writes to replay, clean and merge logs, in the lessons 08, 10, 11 and 12: what
Kafka answers, and the mistakes.

To replay a log means to compute the committed offsets from its lines (`Line` in log_lines.py).
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from kafkagroups.course.exercises.exercise import ExerciseFunction, make_commit
from kafkagroups.course.log_lines import Line, Lines
from kafkagroups.course.log_parts import NewestLine, PartResult, merge_results
from kafkagroups.groups.offsets import Offsets, TopicPartition

CommittedOffsets = dict[Any, Any]
"""Committed offsets by (group, partition)."""
Records = list[tuple[int, Any, Any]]
"""The offset, key and value of each record. The value of a tombstone is None."""

_LINE = re.compile(
    r"(?P<at>\d+): (?:producer (?P<ended>\d+) (?P<end>commit|abort)s"
    r"|(?P<of>\w+) (?P<partition>\S+) (?:deleted|= (?P<value>\d+))(?:, producer (?P<producer>\d+))?"
    r"|(?P<group>\w+), (?:deleted|generation (?P<generation>\d+)))"
)

# Lesson 08: `replay_transactions`, and lesson 11: `replay`.


def _replay_lines(lines: Lines, *, ignores_transactions: bool = False) -> CommittedOffsets:
    """Return the committed offsets by the rules of the new coordinator.

    If `ignores_transactions` is true, an offset of a transaction is committed immediately.
    """
    offsets = Offsets()
    for record_offset, record_type, group, partition_name, value, producer in lines:
        if record_type in ("commit", "abort") and producer is not None:
            # The newer of a pending and a committed offset wins. Lines do not contain the offsets of batches, so the
            # record offsets decide which offset is newer.
            offsets.end_transaction(producer, commits=record_type == "commit", by=record_offset, compares_batches=False)
        if record_type == "group" and group is not None and value is None:
            for deleted_partition in list(offsets.committed.get(group, ())):
                offsets.remove(group, deleted_partition, record_offset)
        if record_type != "offset" or group is None or partition_name is None:
            continue
        partition = TopicPartition.parse(partition_name)
        if value is None:
            offsets.remove(group, partition, record_offset)
            continue
        offset = make_commit(value, record_offset=record_offset)
        if producer is None or ignores_transactions:
            offsets.put(group, partition, offset)
        else:
            offsets.put_pending(producer, group, partition, offset)
    return {
        (group, str(partition)): offset.offset
        for group, committed in offsets.committed.items()
        for partition, offset in committed.items()
    }


def _replay_transactions_wrongly(mistake: str, lines: Lines) -> CommittedOffsets:
    def wins(pending_record_offset: int, committed: tuple[int, int] | None) -> bool:
        if committed is None or mistake == "marker decides":
            return True
        if mistake == "plain commit wins":
            return False
        committed_record_offset, _ = committed
        return committed_record_offset < pending_record_offset

    # By group and partition: the offset of the record, and the committed offset.
    offsets: dict[Any, Any] = {}
    # The pending offsets of each producer. The keys are producer ids.
    pending: dict[int | None, dict[Any, Any]] = {}
    for line in lines:
        key = line.group, line.partition
        # With this mistake, all producers have the key None, so a marker ends the transactions of all producers.
        producer = None if mistake == "one transaction for all" else line.producer
        if line.record_type == "offset":
            if line.value is None:
                offsets.pop(key, None)
            elif line.producer is None or mistake == "counts without marker":
                offsets[key] = line.record_offset, line.value
            else:
                pending.setdefault(producer, {})[key] = line.record_offset, line.value
        elif line.record_type in ("commit", "abort"):
            is_commit = line.record_type == "commit"
            if is_commit or mistake == "abort counts":
                for pending_key, (record_offset, value) in pending.get(producer, {}).items():
                    if wins(record_offset, offsets.get(pending_key)):
                        offsets[pending_key] = record_offset, value
            if is_commit or mistake != "abort stays pending":
                pending.pop(producer, None)
    return {key: value for key, (_, value) in offsets.items()}


def _replay_wrongly(mistake: str, lines: Lines) -> CommittedOffsets:
    offsets: CommittedOffsets = {}
    for line in lines:
        key = line.partition if mistake == "forgets the group" else (line.group, line.partition)
        if line.record_type != "offset" and mistake != "uses lines of every type":
            if mistake == "deletes with every group line":
                offsets = {key: value for key, value in offsets.items() if key[0] != line.group}
            elif mistake == "forgets all groups" and line.value is None:
                offsets.clear()
        elif line.value is None:
            if mistake == "stores None":
                offsets[key] = None
            elif mistake != "ignores tombstones":
                offsets.pop(key, None)
        elif mistake == "keeps the oldest":
            offsets.setdefault(key, line.value)
        elif mistake == "keeps the largest":
            offsets[key] = max(line.value, offsets.get(key, line.value))
        else:
            offsets[key] = line.value
    return offsets


def _read_lines(text: str) -> tuple[Lines]:
    return (Lines(map(_read_line, text.split(" | "))),)


def _read_line(text: str) -> Line:
    """Read a line in its printed form."""
    found = _LINE.fullmatch(text)
    assert found is not None, text
    numbers = {name: int(found[name]) for name in ("at", "ended", "value", "producer", "generation") if found[name]}
    if found["end"]:
        return Line(numbers["at"], found["end"], producer=numbers["ended"])
    if found["partition"]:
        return Line(
            numbers["at"], "offset", found["of"], found["partition"], numbers.get("value"), numbers.get("producer")
        )
    return Line(numbers["at"], "group", found["group"], value=numbers.get("generation"))


# Lesson 10: `survivors`.


def _list_survivors(records: Records, active_offset: int) -> list[int]:
    newest_offsets = {key: offset for offset, key, _ in records if offset < active_offset}
    return [offset for offset, key, _ in records if offset >= active_offset or newest_offsets[key] == offset]


def _list_survivors_wrongly(mistake: str, records: Records, active_offset: int) -> list[int]:
    reads_active_segment = mistake in ("adds the active segment to the map", "ignores the active segment")
    in_order = reversed(records) if mistake == "keeps the oldest records" else records
    newest_offsets = {key: offset for offset, key, _ in in_order if reads_active_segment or offset < active_offset}
    survivors = []
    for place, (offset, key, value) in enumerate(records):
        is_active = offset >= active_offset and mistake != "ignores the active segment"
        is_removed = (mistake == "removes tombstones" and value is None) or (
            mistake == "removes the active segment" and is_active
        )
        if not is_removed and (is_active or newest_offsets[key] == offset):
            survivors.append(place if mistake == "returns places in the list" else offset)
    return survivors


# Lesson 12: `merge`.


def _merge_wrongly(mistake: str, left: PartResult, right: PartResult) -> PartResult:
    merged = merge_results(left, right)
    if mistake == "prefers right":
        merged = {**left, **right}
    elif mistake == "prefers left":
        merged = {**right, **left}
    elif mistake == "prefers the larger offset":
        merged |= {key: max(left[key], right[key], key=_read_offset_or_0) for key in left if key in right}
    elif mistake == "drops tombstones after the merge":
        merged = _drop_tombstones(merged)
    elif mistake == "drops tombstones before the merge":
        merged = merge_results(_drop_tombstones(left), _drop_tombstones(right))
    elif mistake == "keeps only the keys of left":
        merged = {key: merged[key] for key in left}
    return merged


def _read_offset_or_0(line: NewestLine) -> int:
    _, offset = line
    return offset or 0


def _drop_tombstones(result: PartResult) -> PartResult:
    return {key: (position, offset) for key, (position, offset) in result.items() if offset is not None}


FUNCTIONS = {
    "replay_transactions": ExerciseFunction(_replay_lines, _replay_transactions_wrongly, _read_lines),
    "survivors": ExerciseFunction(_list_survivors, _list_survivors_wrongly),
    "replay": ExerciseFunction(partial(_replay_lines, ignores_transactions=True), _replay_wrongly, _read_lines),
    "merge": ExerciseFunction(merge_results, _merge_wrongly),
}
