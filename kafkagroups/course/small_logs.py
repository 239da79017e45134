"""Lessons 10 and 12: write and load small logs. A text describes the log: each letter stands for one batch.


- C: a commit of group g for partition t-0, without a transaction
- X: a commit of group g for partition t-0 in a transaction
- M: the marker that commits the transaction
- A: the marker that aborts the transaction
- T: a tombstone of the offset of partition t-0
- D: a tombstone of the group g
- K: the tombstones of T and D in one batch, as a broker writes them when it deletes a group

The committed offset is 100 plus the position of the letter: in "CTC", the first C commits 100 and the second C
commits 102.

The cleaner can clean the batches of all letters, because they stand in the first segment. A second segment, with a
commit of another group, is the active one, which the cleaner does not change.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from kafkagroups import CleanerConfig, compact, load
from kafkagroups.course.lesson_clock import HOUR_MS, START_MS
from kafkagroups.course.log_lines import read_lines
from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL, LogRecord, encode_batch
from kafkagroups.log.segment_file import segment_name
from kafkagroups.log.writer import LogWriter
from kafkagroups.records.control import ControlType, encode_control_key, encode_end_transaction_marker
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode

KeyAndValue = tuple[bytes, bytes | None]
"""The bytes of a record's key and value. The value of a tombstone is None."""
_MARKERS = {"M": ControlType.COMMIT, "A": ControlType.ABORT}
# The producer id of the transaction.
_PRODUCER_ID = 1


def write_small_log(folder: str | Path, letters: str) -> Path:
    """Write the log of these letters into a new folder, and return it.

    Raises UsageError if a letter is unknown.
    """
    folder = Path(folder)
    next_offset = 0
    for position, letter in enumerate(letters):
        next_offset = _append_letter(
            folder, next_offset, letter, committed_offset=100 + position, timestamp_ms=START_MS + position
        )
    active_segment = folder / segment_name(next_offset)
    active_segment.write_bytes(encode_records(next_offset, START_MS + len(letters), [encode_commit("other", 1)]))
    return folder


def load_small_log(letters: str, coordinator: str = "new", passes: int = 2) -> list[int | None]:
    """Return the committed offsets of group g for partition t-0 before the first pass of the log cleaner and after
    each.

    A pass sets a delete horizon for tombstones and markers, and the next pass is one hour later and removes them,
    because delete.retention.ms is one minute. None means that the coordinator ("new" or "classic") loaded no offset.
    """
    with TemporaryDirectory() as folder:
        log = write_small_log(Path(folder, "0"), letters)
        offsets = [_load_offset(log, coordinator)]
        for number in range(1, passes + 1):
            cleaned = Path(folder, str(number))
            compact(log, cleaned, CleanerConfig(now_ms=START_MS + number * HOUR_MS, delete_retention_ms=60_000))
            log = cleaned
            offsets.append(_load_offset(log, coordinator))
        return offsets


def print_deletion_in_transaction() -> None:
    """Print the log "XTM", whose offset is deleted in an open transaction, and the answers around a cleaning pass."""
    letters = "XTM"
    with TemporaryDirectory() as folder:
        lines = read_lines(write_small_log(Path(folder, "0"), letters))
        print(*lines[: len(letters)], sep="\n")  # The last line is the record of the active segment.
    for coordinator in ("classic", "new"):
        answers = load_small_log(letters, coordinator, passes=1)
        before, after = ("no offset" if answer is None else f"offset {answer}" for answer in answers)
        print(f"  {coordinator + ' coordinator:':<20} before the pass: {before:<11} after the pass: {after}")


def _load_offset(log: Path, coordinator: str) -> int | None:
    group = load(log, coordinator).get("g")
    committed = group.offsets.get(TopicPartition("t", 0)) if group else None
    return committed.offset if committed else None


def encode_commit(group: str, offset: int | None, topic: str = "t") -> KeyAndValue:
    """Return the key and the value of a commit for partition 0 of a topic, or of a tombstone if `offset` is None."""
    commit_value = None if offset is None else OffsetCommitValue(offset, -1, "", START_MS)
    value_version = None if offset is None else 3
    record_type = 1  # A committed offset.
    key, value = encode(Record(record_type, OffsetCommitKey(group, topic, 0), commit_value, value_version))
    assert key is not None
    return key, value


def encode_records(
    offset: int, timestamp_ms: int, pairs: list[KeyAndValue], attributes: int = 0, producer_id: int = -1
) -> bytes:
    """Return a batch of these keys and values, all with the same timestamp. `offset` is that of its first record.

    `attributes` are the flags `TRANSACTIONAL` and `CONTROL`.
    """
    records = [LogRecord(offset + index, timestamp_ms, key, value) for index, (key, value) in enumerate(pairs)]
    producer_epoch = -1 if producer_id == -1 else 0
    return encode_batch(records, attributes=attributes, producer_id=producer_id, producer_epoch=producer_epoch)


def encode_marker(offset: int, timestamp_ms: int, control_type: ControlType, producer_id: int) -> bytes:
    pairs: list[KeyAndValue] = [(encode_control_key(control_type), encode_end_transaction_marker(coordinator_epoch=0))]
    return encode_records(offset, timestamp_ms, pairs, TRANSACTIONAL | CONTROL, producer_id)


def _append_letter(folder: Path, offset: int, letter: str, *, committed_offset: int, timestamp_ms: int) -> int:
    """Append the batch of one letter, and return the offset of the next batch."""
    # Type 2: the record of a classic group.
    group_tombstone = encode(Record(2, GroupMetadataKey("g"), None, None))
    pairs_by_letter: dict[str, list[KeyAndValue]] = {
        "C": [encode_commit("g", committed_offset)],
        "X": [encode_commit("g", committed_offset)],
        "T": [encode_commit("g", None)],
        "D": [group_tombstone],
        "K": [encode_commit("g", None), group_tombstone],
    }
    if letter in _MARKERS:
        batch = encode_marker(offset, timestamp_ms, _MARKERS[letter], _PRODUCER_ID)
    elif letter == "X":
        batch = encode_records(offset, timestamp_ms, pairs_by_letter[letter], TRANSACTIONAL, _PRODUCER_ID)
    elif letter in pairs_by_letter:
        batch = encode_records(offset, timestamp_ms, pairs_by_letter[letter])
    else:
        raise UsageError(f"unknown letter {letter!r}: use the letters {', '.join([*pairs_by_letter, *_MARKERS])}")
    with LogWriter(folder) as log:
        log.append(batch)
        return log.next_offset
