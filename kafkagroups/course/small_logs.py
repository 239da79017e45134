"""Logs that lesson 08 makes, and what becomes of them: a few letters, the shop's real passes again, many commits.

A letter is one batch: C a plain commit of group g for t-0, X the same in a transaction, M its commit marker, A its
abort marker, T a tombstone of that offset, D a tombstone of the group, K a deletion as a broker writes it: both
tombstones in one batch. The number that is committed is 100 plus the letter's place. Behind them, in the active
segment, stands a commit of another group.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kafkagroups.api import compact, load
from kafkagroups.course.pages import data
from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.log.batch import CONTROL, TRANSACTIONAL, LogRecord
from kafkagroups.log.producer_state import marker
from kafkagroups.log.record_batch import encode_batch, encoded
from kafkagroups.log.segments import open_log, segment_name
from kafkagroups.log.writer import LogWriter
from kafkagroups.records.control import ControlType, encode_control_key, encode_end_transaction_marker
from kafkagroups.records.group_metadata import GroupMetadataKey
from kafkagroups.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkagroups.records.serde import Record, encode
from kafkagroups.synth import write as write_synthetic

START = 1_700_000_000_000
HOUR = 3_600_000
Pairs = list[tuple[bytes, bytes | None]]
COUNTED = ("value", "tombstone")
"""What the offset map counts: no markers, nothing that was aborted."""
_REAL = "harbour/cleaning/{}/__consumer_offsets-38"


class Pass(NamedTuple):
    """A pass of the cleaner: the log before and after it. From `end` on it changed nothing."""

    title: str
    before: Path
    after: Path
    end: int


_folders: list[TemporaryDirectory[str]] = []


def scratch() -> Path:
    """A new folder, removed when Python ends: a cell that is run twice finds nothing in its way."""
    _folders.append(TemporaryDirectory(prefix="kafkagroups-"))
    return Path(_folders[-1].name)


def small_log(folder: str | Path, letters: str) -> Path:
    """Writes the log of these letters (above) into a new folder. UsageError for another letter."""
    folder, offset = Path(folder), 0
    for number, letter in enumerate(letters):
        offset = _append(folder, offset, letter, 100 + number, START + number)
    with open(folder / segment_name(offset), "wb") as active:
        active.write(_batch(offset, START + len(letters), [_commit("other", 1)]))
    return folder


def answers(letters: str, coordinator: str = "new", passes: int = 2) -> list[int | None]:
    """What a coordinator answers for g's t-0 after loading the log of these letters: as written, after each pass.

    Between two passes an hour goes by, and a tombstone waits for a minute.
    """
    with TemporaryDirectory() as scratch:
        log = small_log(Path(scratch, "0"), letters)
        found = [_answer(log, coordinator)]
        for number in range(1, passes + 1):
            out = Path(scratch, str(number))
            compact(log, out, now_ms=START + number * HOUR, delete_retention_ms=60_000)
            log = out
            found.append(_answer(log, coordinator))
        return found


def _answer(log: Path, coordinator: str) -> int | None:
    group = load(log, coordinator).get("g")
    offset = group.offsets.get(TopicPartition("t", 0)) if group else None
    return offset.offset if offset else None


def _commit(group: str, offset: int | None) -> tuple[bytes, bytes | None]:
    value = None if offset is None else OffsetCommitValue(offset, -1, "", START)
    key, encoded_value = encode(Record(1, OffsetCommitKey(group, "t", 0), value, None if value is None else 3))
    assert key is not None
    return key, encoded_value


def _batch(offset: int, time: int, pairs: Pairs, bits: int = 0, producer: int = -1) -> bytes:
    records = [LogRecord(offset + i, time, key, value) for i, (key, value) in enumerate(pairs)]
    return encode_batch(records, attributes=bits, producer_id=producer, producer_epoch=min(producer, 0))


def _marker(offset: int, time: int, kind: ControlType, producer: int) -> bytes:
    pairs: Pairs = [(encode_control_key(kind), encode_end_transaction_marker(0))]
    return _batch(offset, time, pairs, TRANSACTIONAL | CONTROL, producer)


def _append(folder: Path, offset: int, letter: str, number: int, time: int) -> int:
    group_tombstone = encode(Record(2, GroupMetadataKey("g"), None, None))
    plain: dict[str, Pairs] = {
        "C": [_commit("g", number)],
        "X": [_commit("g", number)],
        "T": [_commit("g", None)],
        "D": [group_tombstone],
        "K": [_commit("g", None), group_tombstone],
    }
    markers = {"M": ControlType.COMMIT, "A": ControlType.ABORT}
    if letter in markers:
        batch = _marker(offset, time, markers[letter], 1)
    elif letter in plain:
        bits, producer = (TRANSACTIONAL, 1) if letter == "X" else (0, -1)
        batch = _batch(offset, time, plain[letter], bits, producer)
    else:
        raise UsageError(f"a letter of {', '.join([*plain, *markers])} was expected, not {letter!r}")
    with LogWriter(folder) as log:
        log.append(batch)
        return log.next_offset


def walk(log: str | Path) -> Iterator[tuple[str, LogRecord]]:
    """Every record of a log in order, with what the cleaner takes it for: marker, aborted, tombstone or value."""
    found: dict[int, tuple[str, LogRecord]] = {}
    in_transaction: dict[int, list[LogRecord]] = {}
    for batch in open_log(log):
        for record in batch.records:
            kind = "marker" if batch.is_control else "tombstone" if record.value is None else "value"
            found[record.offset] = kind, record
        if batch.is_control:
            ended = in_transaction.pop(batch.producer_id, [])
            if marker(batch) is ControlType.ABORT:
                found.update((record.offset, ("aborted", record)) for record in ended)
        elif batch.is_transactional:
            in_transaction.setdefault(batch.producer_id, []).extend(batch.records)
    yield from found.values()


def counted(log: str | Path) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of every record that the offset map may count: no markers, nothing that was aborted."""
    return [(each.offset, each.key, each.value) for kind, each in walk(log) if kind in COUNTED]


def real_passes(folder: Path) -> list[Pass]:
    """The three passes of the shop's 4.3.1 broker, made again with its times (harbour/cleaning, server-lines.txt).

    Between the first and the second one it wrote ten records of day 12. Eight of them were superseded before anyone
    copied them; the two that are left are appended here.
    """
    last = Path(data(_REAL.format("after-clean-2")))
    title, logs = "pass {}, {}", [folder / f"after-{number}" for number in range(4)]
    begin = 1_795_256_324_030
    shutil.copytree(data(_REAL.format("before-clean")), logs[0])
    out = [_pass(title.format(1, "10:18:44"), logs[0], logs[1], begin, 0)]
    second = shutil.copytree(logs[1], folder / "before-2")
    day_12 = next(batch for batch in open_log(last) if batch.base_offset == 507)
    (second / segment_name(499)).write_bytes(encoded(day_12))
    out.append(_pass(title.format(2, "10:18:55"), second, logs[2], begin + 11_451, 498))
    third = shutil.copytree(logs[2], folder / "before-3")
    shutil.copy(last / segment_name(509), third)
    return [*out, _pass(title.format(3, "10:19:01"), third, logs[3], begin + 17_528, 499)]


def _pass(title: str, before: Path, after: Path, now_ms: int, first_dirty: int) -> Pass:
    done = compact(before, after, now_ms=now_ms, delete_retention_ms=2_000, first_dirty=first_dirty)
    return Pass(title, before, after, done.next_dirty_offset)


def pinned_log(folder: str | Path) -> Path:
    """The shop's ten days in segments of 8,000 bytes, with one transaction in it that nobody ended."""
    lost = 0
    with LogWriter(folder, segment_bytes=8_000) as log:
        for batch in open_log(data(_REAL.format("before-clean"))):
            if batch.base_offset == 216:
                time = batch.max_timestamp
                log.append(_batch(216, time, [_commit("till-sync", 7)], TRANSACTIONAL, 77))
                lost = 1
            # offset and length stand before the checksum (lesson 03), so that is all there is to change
            log.append((batch.base_offset + lost).to_bytes(8, "big") + encoded(batch)[8:])
    return Path(folder)


def abort(log: Path, producer: int) -> Path:
    """A copy of a log with the abort marker that a producer's transaction waits for, in a segment of its own."""
    copy = scratch() / "ended"
    shutil.copytree(log, copy)
    with LogWriter(copy, segment_bytes=1) as writer:
        time = max(batch.max_timestamp for batch in open_log(log))
        writer.append(_marker(writer.next_offset, time, ControlType.ABORT, producer))
    return copy


def without_newest_segments(topic: str | Path) -> Path:
    """The same topic as it was before its partitions began their newest segments: a folder of links."""
    before = scratch()
    for partition in Path(topic).iterdir():
        older = sorted(partition.glob("*.log"))[:-1]
        for segment in older:
            (before / partition.name).mkdir(exist_ok=True)
            (before / partition.name / segment.name).symlink_to(segment.resolve())
    return before


@dataclass(frozen=True)
class Grown:
    """Two replicas after so many records: bytes of the one that is never cleaned, and of the other around a pass."""

    records: int
    live: int
    never_cleaned: int
    before_pass: int
    after_pass: int


def grow(
    folder: Path, records: int = 40_000, groups: int = 50, rounds: int = 10, ratio: float = 0.5
) -> Iterator[Grown]:
    """Appends one synthetic log to `folder`/never-cleaned and `folder`/cleaned, in rounds; the second gets its passes.

    A pass comes when the share of dirty bytes in the closed segments is above `ratio`. A batch takes a millisecond.
    """
    never, cleaned, out = folder / "never-cleaned", folder / "cleaned", folder / "pass"
    write_synthetic(folder / "synthetic", records, partitions=1, groups=groups, seed=8)
    batches = list(open_log(folder / "synthetic" / "__consumer_offsets-0"))
    dirty, each = 0, -(-len(batches) // rounds)
    for start in range(0, len(batches), each):
        for log in (never, cleaned):
            with LogWriter(log, segment_bytes=16_384) as writer:
                for batch in batches[start : start + each]:
                    writer.append(encoded(batch))
        before = _bytes(cleaned)
        if _dirty_share(cleaned, dirty) > ratio:
            dirty = compact(cleaned, out, first_dirty=dirty, delete_retention_ms=100).next_dirty_offset
            shutil.rmtree(cleaned)
            out.rename(cleaned)
        live = sum(len(group.offsets) for group in load(cleaned).values())
        written = batches[min(start + each, len(batches)) - 1].next_offset
        yield Grown(written, live, _bytes(never), before, _bytes(cleaned))


def _bytes(log: Path) -> int:
    return sum(file.stat().st_size for file in log.glob("*.log"))


def _dirty_share(log: Path, first_dirty: int) -> float:
    sizes = [(int(file.stem), file.stat().st_size) for file in sorted(log.glob("*.log"))[:-1]]
    return sum(size for base, size in sizes if base >= first_dirty) / (sum(size for _, size in sizes) or 1)
