"""Lessons 08 and 10: tiny logs written as letters, and the offset that a load gives.

The letters:

- C: a plain commit of group g for partition t-0
- X: the same commit in a transaction
- M: the commit marker of that transaction
- A: the abort marker of that transaction
- T: a tombstone of that offset
- D: a tombstone of the group
- K: a deletion as a broker writes it, with both tombstones in one batch

The committed number is 100 plus the letter's position. After the letters, the active segment holds a commit of
another group.
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
    """Write the log of these letters into a new folder and return the folder.

    Parameters
    ----------
    folder
        Where to write.
    letters
        One letter for each batch, as described at the top of this module.

    Raises
    ------
    UsageError
        If there is an unknown letter.
    """
    folder = Path(folder)
    offset = 0
    for position, letter in enumerate(letters):
        offset = _append_letter(folder, offset, letter, 100 + position, START + position)
    last_commit = encode_records(offset, START + len(letters), [encode_commit("other", 1)])
    (folder / segment_name(offset)).write_bytes(last_commit)
    return folder


def load_small_log(letters: str, coordinator: str = "new", passes: int = 2) -> list[int | None]:
    """Return the offset of partition t-0 of group g after a load of the log as written, and after each cleaner pass.

    An hour goes by between two passes of the cleaner, and a tombstone is kept for a minute.

    Parameters
    ----------
    letters
        The log, one letter for each batch.
    coordinator
        "new" or "classic".
    passes
        How many passes of the cleaner run.

    Returns
    -------
    list
        The offsets, None where the coordinator has none.
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
    offset = group.offsets.get(TopicPartition("t", 0)) if group else None
    return offset.offset if offset else None


def encode_commit(group: str, offset: int | None) -> KeyAndValue:
    """Return key and value of a commit for partition t-0. The offset None gives a tombstone."""
    committed = None if offset is None else OffsetCommitValue(offset, -1, "", START)
    version = None if offset is None else 3
    key, value = encode(Record(1, OffsetCommitKey(group, "t", 0), committed, version))
    assert key is not None
    return key, value


def encode_records(offset: int, time: int, pairs: list[KeyAndValue], attributes: int = 0, producer: int = -1) -> bytes:
    """Return a batch with these keys and values. All records have the same time."""
    records = [LogRecord(offset + index, time, key, value) for index, (key, value) in enumerate(pairs)]
    return encode_batch(records, attributes=attributes, producer_id=producer, producer_epoch=min(producer, 0))


def encode_marker(offset: int, time: int, kind: ControlType, producer: int) -> bytes:
    """Return the batch of a transaction marker."""
    pairs: list[KeyAndValue] = [(encode_control_key(kind), encode_end_transaction_marker(0))]
    return encode_records(offset, time, pairs, TRANSACTIONAL | CONTROL, producer)


def _append_letter(folder: Path, offset: int, letter: str, committed: int, time: int) -> int:
    """Append the batch of one letter and return the log's next offset."""
    group_tombstone = encode(Record(2, GroupMetadataKey("g"), None, None))
    pairs: dict[str, list[KeyAndValue]] = {
        "C": [encode_commit("g", committed)],
        "X": [encode_commit("g", committed)],
        "T": [encode_commit("g", None)],
        "D": [group_tombstone],
        "K": [encode_commit("g", None), group_tombstone],
    }
    if letter in _MARKERS:
        batch = encode_marker(offset, time, _MARKERS[letter], _PRODUCER)
    elif letter == "X":
        batch = encode_records(offset, time, pairs[letter], TRANSACTIONAL, _PRODUCER)
    elif letter in pairs:
        batch = encode_records(offset, time, pairs[letter])
    else:
        raise UsageError(f"unknown letter {letter!r}: use the letters {', '.join([*pairs, *_MARKERS])}")
    with LogWriter(folder) as log:
        log.append(batch)
        return log.next_offset
