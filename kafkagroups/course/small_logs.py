"""Lessons 08 and 10: small logs that are written as letters, and the offset after a load.

Each letter stands for one batch:

- C: a plain commit of group g for partition t-0
- X: a commit of group g for partition t-0 in a transaction
- M: the commit marker of the transaction
- A: the abort marker of the transaction
- T: a tombstone of the offset of partition t-0
- D: a tombstone of the group g
- K: both tombstones in one batch, as a broker writes them when it deletes a group

The committed offset is 100 plus the letter's position in the text. All batches of the letters are in one segment (one
file of the log). After this segment, the log has an active segment with a commit of another group. The cleaner cleans
only the segments before the active segment, so it can clean all letters.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from kafkagroups.api import compact, load
from kafkagroups.course.lesson_clock import HOUR, START
from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL, LogRecord
from kafkagroups.log.record_batch import encode_batch
from kafkagroups.log.segment_file import segment_name
from kafkagroups.log.writer import LogWriter
from kafkagroups.records.control import ControlType, encode_control_key, encode_end_transaction_marker
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode

KeyAndValue = tuple[bytes, bytes | None]
_MARKERS = {"M": ControlType.COMMIT, "A": ControlType.ABORT}
_PRODUCER = 1


def write_small_log(folder: str | Path, letters: str) -> Path:
    """Write the log of these letters into a new folder, and return the folder.

    Parameters
    ----------
    folder
        The folder that receives the log.
    letters
        One letter for each batch, as described at the top of this module.

    Raises
    ------
    UsageError
        If a letter is unknown.
    """
    folder = Path(folder)
    offset = 0
    for position, letter in enumerate(letters):
        offset = _append_letter(folder, offset, letter, 100 + position, START + position)
    last_commit = encode_records(offset, START + len(letters), [encode_commit("other", 1)])
    (folder / segment_name(offset)).write_bytes(last_commit)
    return folder


def load_small_log(letters: str, coordinator: str = "new", passes: int = 2) -> list[int | None]:
    """Return the offset that group g has for partition t-0 after a load of the log.

    The log is loaded before the first pass of the log cleaner, and after each pass. The time between two passes is one
    hour, and delete.retention.ms is one minute, so each pass removes the tombstones and markers that an earlier pass
    marked for removal.

    Parameters
    ----------
    letters
        The log, one letter for each batch.
    coordinator
        "new" or "classic".
    passes
        The number of passes of the cleaner.

    Returns
    -------
    list
        The loaded offsets, in the order of the passes. An entry is None if the coordinator has no offset.
    """
    with TemporaryDirectory() as folder:
        log = write_small_log(Path(folder, "0"), letters)
        offsets = [_load_offset(log, coordinator)]
        for number in range(1, passes + 1):
            cleaned = Path(folder, str(number))
            compact(log, cleaned, now_ms=START + number * HOUR, delete_retention_ms=60_000)
            log = cleaned
            offsets.append(_load_offset(log, coordinator))
        return offsets


def _load_offset(log: Path, coordinator: str) -> int | None:
    group = load(log, coordinator).get("g")
    committed = group.offsets.get(TopicPartition("t", 0)) if group else None
    return committed.offset if committed else None


def encode_commit(group: str, offset: int | None) -> KeyAndValue:
    """Return the key and the value of a commit for partition t-0. If `offset` is None, return a tombstone."""
    commit_value = None if offset is None else OffsetCommitValue(offset, -1, "", START)
    version = None if offset is None else 3
    key, value = encode(Record(1, OffsetCommitKey(group, "t", 0), commit_value, version))
    assert key is not None
    return key, value


def encode_records(
    offset: int, timestamp: int, pairs: list[KeyAndValue], attributes: int = 0, producer_id: int = -1
) -> bytes:
    """Return the bytes of a batch with these keys and values. All records have the same timestamp.

    `offset` is the offset of the first record, `timestamp` is in ms since the epoch, and `attributes` are the flags of
    the batch (`TRANSACTIONAL`, `CONTROL`).
    """
    records = [LogRecord(offset + index, timestamp, key, value) for index, (key, value) in enumerate(pairs)]
    # The epoch is -1 without a producer, and 0 with a producer.
    epoch = min(producer_id, 0)
    return encode_batch(records, attributes=attributes, producer_id=producer_id, producer_epoch=epoch)


def encode_marker(offset: int, timestamp: int, control_type: ControlType, producer_id: int) -> bytes:
    """Return the bytes of the batch of a transaction marker."""
    pairs: list[KeyAndValue] = [(encode_control_key(control_type), encode_end_transaction_marker(0))]
    return encode_records(offset, timestamp, pairs, TRANSACTIONAL | CONTROL, producer_id)


def _append_letter(folder: Path, offset: int, letter: str, committed_offset: int, timestamp: int) -> int:
    """Append the batch of one letter and return the log's next offset."""
    group_tombstone = encode(Record(2, GroupMetadataKey("g"), None, None))
    pairs: dict[str, list[KeyAndValue]] = {
        "C": [encode_commit("g", committed_offset)],
        "X": [encode_commit("g", committed_offset)],
        "T": [encode_commit("g", None)],
        "D": [group_tombstone],
        "K": [encode_commit("g", None), group_tombstone],
    }
    if letter in _MARKERS:
        batch = encode_marker(offset, timestamp, _MARKERS[letter], _PRODUCER)
    elif letter == "X":
        batch = encode_records(offset, timestamp, pairs[letter], TRANSACTIONAL, _PRODUCER)
    elif letter in pairs:
        batch = encode_records(offset, timestamp, pairs[letter])
    else:
        raise UsageError(f"unknown letter {letter!r}: use the letters {', '.join([*pairs, *_MARKERS])}")
    with LogWriter(folder) as log:
        log.append(batch)
        return log.next_offset
