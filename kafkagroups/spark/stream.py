"""The stream of a growing topic, as the data source `consumer_offsets` (source.py) reads it.

Spark calls a position in a stream an offset. Here it is a `StreamOffset`: the next Kafka offset of each log partition,
because segments grow and are replaced, but offsets stay. A `Position` adds the place in a file, if it is known.

A log is read only up to a batch that is incomplete or has a wrong checksum, because a broker may still be writing it,
and then a later call reads it. It is damage if it cannot get better: a batch or a segment follows, which a broker
writes later, or nobody has written the file for a minute.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.loading.columns import Row, partition_number, record_batches
from kafkagroups.loading.rows import record_rows
from kafkagroups.log.batch import HEADER_SIZE, Batch, record_count
from kafkagroups.log.batches import Damage, FoundBatch, Position
from kafkagroups.log.folders import find_logs, local_path
from kafkagroups.log.segment_file import ByteRange, MissingSegment, base_offset_of
from kafkagroups.log.segments import Log
from kafkagroups.spark.options import LATEST, LOCATED_BATCHES, Options, select_columns
from kafkagroups.spark.tasks import damage_error, distribute

if TYPE_CHECKING:
    import pyarrow as pa

    StreamOffset = dict[str, int]
    """A position in the stream. For each log partition (its number as text): the Kafka offset of the next record.

    A log partition with damage has a second entry (DAMAGED). So Spark sees that something is new, and runs the tasks.
    """

_SECONDS_OF_WRITING = 60
_EPOCH = slice(12, 16)
"""The bytes of the leader epoch in a batch of magic 2."""
DAMAGED = "damaged "
"""The start of the second entry's name. It has the same Kafka offset, at which the damage is."""


@dataclass
class StreamTask(InputPartition):
    """The logs that one task reads."""

    logs: list[tuple[Log, Position, int, Damage | None]]


class Loss(Exception):
    """A log partition no longer has what a stream has read. `next_offset` is where the log ends now."""

    def __init__(self, reason: str, next_offset: int) -> None:
        self.reason = reason
        self.next_offset = next_offset


class Budget:
    """How much a micro-batch may still read: `left` in all, and `share` from the current log partition."""

    def __init__(self, left: float, measure: Callable[[Batch], int]) -> None:
        self.left = left
        self.share = left
        self.measure = measure
        self.is_used = False
        self.has_refused = False

    def take(self, batch: Batch) -> bool:
        """Return whether the share is large enough for a batch, and reduce it."""
        size = self.measure(batch)
        if size > self.share:
            self.has_refused = True
            return False
        self.is_used = True
        self.left -= size
        self.share -= size
        return True


class Progress:
    """What a running query knows about a log partition.

    `positions` has the place of each Kafka offset that `latestOffset` has returned and Spark can still request, and
    `last_batch` is the batch before the newest one. `latest` is what `reportLatestOffset` has returned last.
    """

    def __init__(self) -> None:
        self.positions: dict[int, Position] = {}
        self.last_batch: FoundBatch | None = None
        self.latest: Position | None = None

    def position_at(self, offset: int) -> Position:
        """Return the position of a Kafka offset; it has a file and a byte only if they are known."""
        return self.positions.get(offset) or Position(offset)


class OffsetsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream. Only the method `read` runs in tasks."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.table not in ("records", "batches"):
            raise UsageError(f"a stream has table records or batches, not {options.table}")
        remote_paths = [path for path in options.paths if local_path(path) is None]
        if remote_paths:
            raise UsageError(f"a stream reads files of this machine, not {remote_paths[0]}")
        self.options = options
        self.schema = schema
        self.progress: defaultdict[int, Progress] = defaultdict(Progress)
        self.reported: set[Damage] = set()
        self.file_sizes_at_start: dict[str, int] | None = None
        """By path: the size of each file when a query with the trigger AvailableNow started; None for others."""

    def initialOffset(self) -> StreamOffset:
        wanted = self.options.starting_offsets
        latest = self.reportLatestOffset() if wanted is None or LATEST in wanted.values() else {}
        if wanted is None:
            return latest
        offsets = {name: latest.get(name, 0) if offset == LATEST else offset for name, offset in wanted.items()}
        return {name: offset for name, offset in offsets.items() if offset > 0}

    def prepareForTriggerAvailableNow(self) -> None:
        logs = self._find_logs().values()
        self.file_sizes_at_start = {path: _file_size(path) for log in logs for path in _file_paths(log)}

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self.options.max_bytes_per_trigger)
        max_rows = self.options.max_rows_per_trigger
        return ReadAllAvailable() if max_rows is None else ReadMaxRows(max_rows)

    def reportLatestOffset(self) -> StreamOffset:
        """Return the position after the last complete batch of each log partition, whatever the read limit is."""
        logs = self._find_logs_of_query()
        ends: StreamOffset = {}
        for partition in sorted(logs):
            progress = self.progress[partition]
            read = [*progress.positions.values(), progress.latest or Position(0)]
            with suppress(Loss):
                progress.latest = _find_end(logs[partition], max(read)).position
            if progress.latest is not None:
                ends[str(partition)] = progress.latest.next_offset
        return ends

    def latestOffset(self, start: StreamOffset, limit: ReadLimit) -> StreamOffset:
        """Return the position in the stream after the batches that the limit allows, or after all complete batches.

        The log partitions with the fewest unread bytes come first, and each gets an equal share of what is left, so the
        largest backlog gets what the others do not need. If no batch fits into its share, the largest one reads one.
        """
        ends = {int(name): offset for name, offset in start.items() if not name.startswith(DAMAGED)}
        damaged: StreamOffset = {}
        logs = self._find_logs_of_query()
        for partition in ends.keys() - logs.keys():
            if self.options.selects(partition):
                self._lose(partition, ends.pop(partition), Loss("the folder has disappeared", 0))

        def count_unread(partition: int) -> int:
            start = self.progress[partition].position_at(ends.get(partition, 0))
            return _count_unread_bytes(logs[partition], start)

        by_backlog = sorted(logs, key=count_unread)
        budget = _make_budget(limit, self.options.table)
        for index, partition in enumerate(by_backlog):
            budget.share = budget.left / (len(by_backlog) - index)
            self._advance(partition, logs[partition], ends, damaged, budget)
        if budget.has_refused and not budget.is_used:
            budget = Budget(1, lambda batch: 1)
            for partition in reversed(by_backlog):
                self._advance(partition, logs[partition], ends, damaged, budget)
        return {str(partition): ends[partition] for partition in sorted(ends)} | damaged

    def _advance(self, partition: int, log: Log, ends: dict[int, int], damaged: StreamOffset, budget: Budget) -> None:
        """Move the end of a log partition forward, or to where a log that has lost records ends now."""
        start = ends.get(partition, 0)
        progress = self.progress[partition]
        try:
            _check_last_batch(progress.last_batch, log, start)
            found = _find_end(log, progress.position_at(start), budget)
        except Loss as loss:
            self._lose(partition, start, loss)
            ends[partition] = loss.next_offset
            return
        if found.last_batch is not None:
            ends[partition] = found.position.next_offset
            progress.positions[found.position.next_offset] = found.position
            progress.last_batch = found.last_batch
        damage = found.damage
        if damage is None:
            return
        if found.is_damaged and self.options.fail_on_damage:
            raise damage_error(damage)
        # A query that ends now reads fewer batches because of a batch that is being written.
        if damage not in self.reported and (found.is_damaged or self.file_sizes_at_start is not None):
            print(damage, file=sys.stderr)
            self.reported.add(damage)
        if found.is_damaged:
            damaged[f"{DAMAGED}{partition}"] = damage.offset

    def _lose(self, partition: int, offset: int, loss: Loss) -> None:
        """Report that a log partition has lost what was read up to an offset, and forget where that was."""
        places = self.progress.pop(partition, Progress()).positions.values()
        folders = [os.path.dirname(place.segment) for place in places] or self.options.paths
        error = InvalidLog(
            f"{loss.reason}. The stream has read partition {partition} up to this offset. With failOnDataLoss=false, "
            "it goes on with what is there now",
            file=folders[0],
            offset=offset,
        )
        if self.options.fail_on_data_loss:
            raise error
        print(error, file=sys.stderr)

    def partitions(self, start: StreamOffset, end: StreamOffset) -> list[InputPartition]:
        """Return the tasks for the log partitions that have batches between two positions in the stream."""
        found_logs = self._find_logs()
        sized_logs = []
        for name in {name.removeprefix(DAMAGED): None for name in end}:
            start_offset = start.get(name, 0)
            end_offset = end.get(name, 0)
            has_new_damage = DAMAGED + name in end and start.get(DAMAGED + name) != end[DAMAGED + name]
            if end_offset <= start_offset and not has_new_damage:
                continue
            partition = int(name)
            log = found_logs.get(partition)
            if log is None:
                reason = f"the folder has disappeared; the query needs the offsets to {end_offset}"
                self._lose(partition, start_offset, Loss(reason, 0))
                continue
            position = self.progress[partition].position_at(start_offset)
            damage = None
            if has_new_damage:  # It is found again, because a restarted query has not called `latestOffset`.
                damage = _find_end(log, self.progress[partition].position_at(end_offset)).damage
            sized_logs.append((_count_unread_bytes(log, position), (log, position, end_offset, damage)))
        return [StreamTask(logs) for logs in distribute(sized_logs, self.options.tasks)] if sized_logs else []

    def commit(self, end: StreamOffset) -> None:
        for partition, progress in self.progress.items():
            for offset in [offset for offset in progress.positions if offset < end.get(str(partition), 0)]:
                del progress.positions[offset]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches. Their rows are the Kafka batches of a task, or the records in these batches."""
        assert isinstance(partition, StreamTask)
        options = self.options
        columns = select_columns(options, self.schema)
        names = self.schema.names
        for log, position, end_offset, damage in partition.logs:
            if options.table == "batches":
                rows = _batch_rows(log, position, end_offset, damage if "damage" in names else None)
            else:
                batches = (batch for batch, _ in _read_until(log, position, end_offset))
                rows = record_rows(batches, log.partition, options.topic.dialect, with_json="json" in names)
                rows = (row for row in rows if row["offset"] >= position.next_offset)  # It can start inside a batch.
            yield from record_batches(columns, rows)

    def _find_logs_of_query(self) -> dict[int, Log]:
        """Return the logs, up to where they ended when a query with the trigger AvailableNow started."""
        logs = self._find_logs()
        sizes = self.file_sizes_at_start
        return logs if sizes is None else {number: _limit_sizes(log, sizes) for number, log in logs.items()}

    def _find_logs(self) -> dict[int, Log]:
        logs: dict[int, Log] = {}
        for path in self.options.find_paths():
            for log in _find_logs_so_far(path, self.options.cwd):
                number = partition_number(log.partition)
                if number in logs:
                    raise UsageError(f"{path}: partition {number} is in two folders")
                if self.options.selects(number):
                    logs[number] = log.limit_batches(self.options.topic.max_batch_bytes)
        return logs


def _find_logs_so_far(path: str, folder: str) -> list[Log]:
    try:
        return find_logs(path, folder)
    except UsageError:
        if os.path.isdir(os.path.join(folder, local_path(path) or "")):
            return []
        raise


def _batch_rows(log: Log, position: Position, end_offset: int, damage: Damage | None) -> Iterator[Row]:
    names = [column.name for column in LOCATED_BATCHES]
    number = partition_number(log.partition)
    for batch, data in _read_until(log, position, end_offset):
        row = (number, batch.base_offset, batch.next_offset, data, batch.file, batch.position, None)
        yield dict(zip(names, row, strict=True))
    if damage is not None:
        end = (number, damage.offset, damage.offset, b"", damage.file, damage.position, damage.reason)
        yield dict(zip(names, end, strict=True))


def _limit_sizes(log: Log, file_sizes: Mapping[str, int]) -> Log:
    return log.select_ranges(
        {segment: ByteRange(0, file_sizes.get(_file_path(log, segment), 0)) for segment in log.segments}
    )


class FoundEnd(NamedTuple):
    """The position after the last batch that was found, this batch, and what is wrong there.

    What is wrong is no damage (`is_damaged`) if a broker may still be writing the batch.
    """

    position: Position
    last_batch: FoundBatch | None = None
    damage: Damage | None = None
    is_damaged: bool = False


def _find_end(log: Log, position: Position, budget: Budget | None = None) -> FoundEnd:
    """Return where the batches that follow `position` and fit into the budget end.

    Raises Loss if the log ends before `position`.
    """
    found = _read_on(log, position, budget)
    damage = found.damage
    if damage is None or found.is_damaged:
        return found
    path = _file_path(log, damage.file)
    later_segments = log.segments[log.segments.index(damage.file) + 1 :]
    has_successor = any(map(log.segment_size, later_segments)) or log.select_after(damage) is not None
    has_grown = _file_size(path) > log.segment_size(damage.file)
    is_old = not has_grown and time.time() - os.path.getmtime(path) > _SECONDS_OF_WRITING
    # A broker may have completed the batch, and written the next one, since it was read.
    is_damaged = (has_successor or is_old) and _read_on(log, found.position).damage == damage
    return found._replace(is_damaged=is_damaged)


def _read_on(log: Log, start: Position, budget: Budget | None = None) -> FoundEnd:
    """Return what `_find_end` returns, but damage is only certain if the offsets fall.

    A reader of new batches would take batches for old ones after such a place, so the position is before it.
    """
    end = before = FoundEnd(start)
    previous = start
    try:
        for found in log.find_batches(start):
            frame = found.frame
            is_next = (found.segment, frame.position, found.inode) == previous[1:]
            is_in_later_segment = previous is not start and found.segment != previous.segment
            if frame.base_offset < previous.next_offset and (is_next or is_in_later_segment):
                reason = f"the offsets fall from {previous.next_offset} to {frame.base_offset}"
                damage = Damage(previous.segment, previous.byte, before.position.next_offset, reason)
                return before._replace(damage=damage, is_damaged=True)
            if frame.next_offset > start.next_offset:
                batch = found.parse()
                if budget is not None and not budget.take(batch):
                    return end
                before, end = end, FoundEnd(found.end, found._replace(data=found.data[:HEADER_SIZE]))
            previous = found.end
    except MissingSegment:
        return end  # The cleaner has deleted the file after the folder was listed.
    except InvalidLog as error:
        offset = max(end.position.next_offset, log.start_offset)
        return end._replace(damage=log.describe_damage(error, offset))
    _check_reached(log, start, previous)
    return end


def _check_reached(log: Log, start: Position, reached: Position) -> None:
    """Raise Loss if the log ends before `start`, as far as its batches and the name of the last segment say."""
    last_segment = log.segments[-1]
    is_at_end = start.segment == last_segment and start.byte <= log.segment_size(last_segment)
    if reached is start and not is_at_end:
        reached = Position(base_offset_of(last_segment))
    if reached.next_offset < start.next_offset:
        raise Loss(f"the log ends at offset {reached.next_offset}: it was truncated", reached.next_offset)


def _check_last_batch(last: FoundBatch | None, log: Log, start: int) -> None:
    """Raise Loss if another batch stands where the stream has read its last batch.

    The cleaner writes a new file, in which a batch has fewer records and keeps its offsets and its epoch.
    """
    if last is None or last.frame.next_offset != start:
        return
    before = last.end._replace(next_offset=last.frame.base_offset, byte=last.frame.position)
    with suppress(InvalidLog, MissingSegment):
        for found in log.read_new_batches(before):
            is_same_file = (found.segment, found.inode) == (last.segment, last.inode)
            is_same = found.data[:HEADER_SIZE] == last.data if is_same_file else _fits_cleaned(found, last)
            if not is_same:
                raise Loss("it was rewritten: another batch ends here, or none", start)
            return


def _count_unread_bytes(log: Log, position: Position) -> int:
    return sum(map(_file_size, _file_paths(log)[log.find_segment(position) :])) - position.byte


def _make_budget(limit: ReadLimit | None, table: str) -> Budget:
    if isinstance(limit, ReadMaxBytes):
        return Budget(limit.max_bytes, lambda batch: batch.size)
    if isinstance(limit, ReadMaxRows):
        return Budget(limit.max_rows, record_count if table == "records" else lambda batch: 1)
    return Budget(math.inf, lambda batch: 0)


def _fits_cleaned(found: FoundBatch, last: FoundBatch) -> bool:
    """Return whether the first batch after the last one's start can be in a log that the cleaner has rewritten."""
    if found.frame.base_offset >= last.frame.next_offset or last.frame.magic < 2:
        return True
    epochs = [batch.data[_EPOCH] for batch in (found, last)]
    return found.frame.next_offset == last.frame.next_offset and epochs[0] == epochs[1]


def _read_until(log: Log, position: Position, end_offset: int) -> Iterator[tuple[Batch, bytes]]:
    """Yield in order the batches after a position whose base offset is below `end_offset`, with their bytes in the log.

    Raises InvalidLog if a batch is damaged, because the file has changed since it was read last, and UsageError if a
    file was deleted.
    """
    if position.next_offset >= end_offset:
        return  # The next batch may be damaged.
    try:
        for found in log.read_new_batches(position):
            if found.frame.base_offset >= end_offset:
                return
            yield found.parse(), found.data
            if found.frame.next_offset >= end_offset:
                return  # The next batch may be incomplete.
    except MissingSegment as error:
        raise UsageError(f"{error.reason}: the file was deleted before it was read; start the stream again") from None


def _file_path(log: Log, segment: str) -> str:
    return os.path.join(log.folder, segment)


def _file_paths(log: Log) -> list[str]:
    return [_file_path(log, segment) for segment in log.segments]


def _file_size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
