"""The Spark data source `consumer_offsets`: a log's tables as DataFrames.

    spark.read.format("consumer_offsets").option("table", "offsets").load(path)

    table            one of loading.columns.TABLES (default: offsets); a stream has records or batches
    coordinator      classic or new (default: new)
    kafka            the coordinator's Kafka version (default: 3.9.2 for classic, 4.3.1 for new)
    path, paths      partition directories, .log files or folders of them: the arguments of `.load(…)`,
                     on this machine or on another file system (log/folders.py)
    cwd              the folder of relative paths (default: the folder in which Spark's Java was started)
    partitions       the topic's partition count; the new coordinator then uses the records of a group only from the
                     group's home partition, which is the partition that the hash of the group id selects
    engine           auto, python or compiled, as in `kafkagroups.load` (default: auto, which is the native engine
                     on each machine where it is installed)
    tasks            the largest number of tasks (default: 2 per core of the machine that plans the query, and more
                     if a task would read more than 64 MiB)
    columns          only these columns of the table, such as group,topic,committed_offset: Spark asks a Python data
                     source for all columns, and `json` is most of the work of the table `records`. Every table has two
                     more columns that can be named: `path` of the log, and `cluster`
    groups           only these groups, such as billing,app-*; if `partitions` is given, the new coordinator reads only
                     the home partitions of groups without * and ?
    log_partitions   only these partitions of __consumer_offsets, such as 0,3,7-9
    cluster          what the column `cluster` says, to tell the rows of several clusters apart
    max_batch_bytes  the largest size of one decompressed batch; the log ends before a larger batch
                     (default: 268435456, 256 MiB)
    past_damage      true: go on at the next readable batch after damaged bytes (default: false); not for a stream
    failOnDamage     true: damaged bytes are an error that names the file and the offset (default: true), because rows
                     after them would be missing. false: the log is read up to its damage, as a broker's recovery cuts
                     it there. The table `partitions` has the reason, and Spark's log a line

Filters select no tasks: Spark 4.3 stores the filters that a Python data source accepts in the DataFrame, so a later
query on the same DataFrame would read too little. `groups` and `log_partitions` are part of the DataFrame.

A log partition is a partition of the topic `__consumer_offsets`. Each log partition is loaded alone. So a group with
records in two log partitions has rows from both partitions. In contrast, `kafkagroups.spark.load` returns only the rows
that a broker would answer. If the partition count of the topic was changed, rows of the groups that have moved stand in
both partitions, and a line in Spark's log says so. If a broker's load would fail, no exception is raised: the tables
have what such a broker would answer, and the table `partitions` has the reason.

A growing folder as a Spark stream: the new batches or records of a topic.

    spark.readStream.format("consumer_offsets").option("table", "batches").load(folder)

    table                           records: each row is a record (columns: loading.columns.TABLES)
                                    batches: each row is a Kafka batch (columns: options.BATCHES), unchanged in `bytes`,
                                    for jobs that decode it themselves; a schema can name those of LOCATED_BATCHES, too
    path, paths                     as above, but only of a local or mounted file system, and the same on the
                                    driver and on every executor; the folder may be empty when the stream starts
    coordinator, kafka, cwd, tasks  as above
    failOnDamage                    true: the query fails at damage, with the file and the offset (default: true)
                                    false: the log partition is read up to the damage until its file is repaired, and
                                    Spark's log has a line
    failOnDataLoss                  true: the query fails if a log partition disappears, is truncated below what was
                                    read, or has other bytes there, with the folder and the offset (default: true)
                                    false: Spark's log has a line, and the stream goes on with what is there now
    startingOffsets                 where a new query starts: earliest, latest, or the Kafka offsets of log partitions
                                    as JSON, such as {"0": 23, "9": -1}, where -2 is earliest and -1 is latest (default:
                                    earliest, also for a partition that JSON does not name or that comes later)
    maxBytesPerTrigger              the largest number of bytes of the log in a micro-batch
    maxRowsPerTrigger               the largest number of rows in a micro-batch. A micro-batch has at least one Kafka
                                    batch. At most one of the two options can be set (default: neither)

Spark calls a position in the stream an offset. In
this module, a position in the stream (`StreamOffset`) contains the Kafka offset of the next record of each log
partition.

New batches are in segments that have grown, in new segments, and in new partitions. A Position says
how far a log was read. It is read only up to a batch that is incomplete or has a wrong checksum, because a broker may
still be writing this batch, and then a later call reads it. It is damage if it cannot get better: a batch or a segment
follows, which a broker writes later, or nobody has written the file for a minute.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.loading.columns import Row, record_batches, schema_ddl
from kafkagroups.loading.partition_count import has_wildcard, match_groups
from kafkagroups.loading.rows import GROUP_TABLES, partition_number, record_rows
from kafkagroups.log.batch import HEADER_SIZE, Batch, record_count
from kafkagroups.log.batches import FoundBatch, Position
from kafkagroups.log.damage import NAMED_GROUPS, Damage
from kafkagroups.log.folders import find_all_logs, find_logs, local_path
from kafkagroups.log.segment_file import ByteRange, MissingSegment, base_offset_of, partition_for
from kafkagroups.log.segments import Log
from kafkagroups.spark.options import FORMAT, LATEST, Options, check_schema
from kafkagroups.spark.tasks import damage_error, distribute, exclude_objects_from_gc
from kafkagroups.topic import read_topic_table

if TYPE_CHECKING:
    import pyarrow as pa

    StreamOffset = dict[str, int]
    """A position in the stream. For each log partition (its number as text): the Kafka offset of the next record.

    A log partition with damage has a second entry (DAMAGED). So Spark sees that something is new, and runs the tasks.
    """

_SECONDS_OF_WRITING = 60


EPOCH = slice(12, 16)
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


class OffsetsStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of a stream.

    Only the method `read` runs in tasks.
    """

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.table not in ("records", "batches"):
            raise UsageError(f"a stream has table records or batches, not {options.table}")
        remote_paths = [path for path in options.paths if local_path(path) is None]
        if remote_paths:
            raise UsageError(f"a stream reads files of this machine, not {remote_paths[0]}")
        self.options = options
        self.schema = schema
        self.positions: dict[int, dict[int, Position]] = {}
        """By log partition and Kafka offset: the place (file and byte) of each Kafka offset that `latestOffset` has
        returned and Spark can still request."""
        self.last_batches: dict[int, FoundBatch] = {}
        """By log partition: the batch before the newest position."""
        self.latest: dict[int, Position] = {}
        """By log partition: the position that `reportLatestOffset` has returned last."""
        self.reported: set[Damage] = set()
        self.file_sizes_at_start: dict[str, int] | None = None
        """By path: the size of each file in bytes when a query with the trigger AvailableNow started. None for queries
        with other triggers."""

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
        if self.options.max_bytes is not None:
            return ReadMaxBytes(self.options.max_bytes)
        return ReadAllAvailable() if self.options.max_rows is None else ReadMaxRows(self.options.max_rows)

    def reportLatestOffset(self) -> StreamOffset:
        """Return the position after the last complete batch of each log partition, whatever the read limit is."""
        logs = self._find_logs_of_query()
        for partition, log in logs.items():
            read = [*self.positions.get(partition, {}).values(), self.latest.get(partition, Position(0))]
            with suppress(Loss):
                self.latest[partition] = _find_end(log, max(read)).position
        return {str(partition): self.latest[partition].next_offset for partition in sorted(logs.keys() & self.latest)}

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
            return _count_unread_bytes(logs[partition], self._position_at(partition, ends.get(partition, 0)))

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
        try:
            self._check_last_batch(partition, log, start)
            found = _find_end(log, self._position_at(partition, start), budget)
        except Loss as loss:
            self._lose(partition, start, loss)
            ends[partition] = loss.next_offset
            return
        if found.last_batch is not None:
            ends[partition] = found.position.next_offset
            self.positions.setdefault(partition, {})[found.position.next_offset] = found.position
            self.last_batches[partition] = found.last_batch
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

    def _check_last_batch(self, partition: int, log: Log, start: int) -> None:
        """Raise Loss if another batch stands where the stream has read its last batch.

        The cleaner writes a new file, in which a batch has fewer records and keeps its offsets and its epoch.
        """
        last = self.last_batches.get(partition)
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

    def _lose(self, partition: int, offset: int, loss: Loss) -> None:
        """Report that a log partition has lost what was read up to an offset, and forget where that was."""
        places = self.positions.pop(partition, {}).values()
        self.last_batches.pop(partition, None)
        self.latest.pop(partition, None)
        folders = {os.path.dirname(place.segment) for place in places} or self.options.paths
        folder = next(iter(folders))
        error = InvalidLog(
            f"{loss.reason}. The stream has read partition {partition} up to this offset. With failOnDataLoss=false, "
            "it goes on with what is there now",
            file=folder,
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
            log = found_logs.get(int(name))
            if log is None:
                reason = f"the folder has disappeared; the query needs the offsets to {end_offset}"
                self._lose(int(name), start_offset, Loss(reason, 0))
                continue
            position = self._position_at(int(name), start_offset)
            damage = None
            if has_new_damage:  # It is found again, because a restarted query has not called `latestOffset`.
                damage = _find_end(log, self._position_at(int(name), end_offset)).damage
            sized_logs.append((_count_unread_bytes(log, position), (log, position, end_offset, damage)))
        return [StreamTask(logs) for logs in distribute(sized_logs, self.options.tasks)] if sized_logs else []

    def commit(self, end: StreamOffset) -> None:
        for partition, positions in self.positions.items():
            done = end.get(str(partition), 0)
            self.positions[partition] = {offset: position for offset, position in positions.items() if offset >= done}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches. Their rows are the Kafka batches of a task, or the records in these batches.

        Raises InvalidLog if a Kafka batch is damaged: the file has changed since `latestOffset` read the batch.
        """
        import pyarrow as pa

        assert isinstance(partition, StreamTask)
        options = self.options
        schema = to_arrow_schema(self.schema, timezone="UTC")
        columns_by_name = {column.name: column for column in options.all_columns}
        columns = [columns_by_name[name] for name in schema.names]
        for log, position, end_offset, damage in partition.logs:
            if options.table == "batches":
                rows = _batch_rows(log, position, end_offset, damage if "damage" in schema.names else None)
            else:
                batches = (batch for batch, _ in _read_until(log, position, end_offset))
                rows = record_rows(batches, log.partition, options.topic.dialect, with_json="json" in schema.names)
                rows = (row for row in rows if row["offset"] >= position.next_offset)  # It can start inside a batch.
            for arrow_batch in record_batches(columns, rows):
                yield pa.RecordBatch.from_arrays(arrow_batch.columns, schema=schema)
        exclude_objects_from_gc()

    def _position_at(self, partition: int, offset: int) -> Position:
        """Return the position of a Kafka offset; it has a file and a byte only if they are known."""
        return self.positions.get(partition, {}).get(offset) or Position(offset)

    def _find_logs_of_query(self) -> dict[int, Log]:
        """Return the logs, up to where they ended when a query with the trigger AvailableNow started."""
        logs = self._find_logs()
        sizes = self.file_sizes_at_start
        return logs if sizes is None else {number: _limit_sizes(log, sizes) for number, log in logs.items()}

    def _find_logs(self) -> dict[int, Log]:
        logs: dict[int, Log] = {}
        for path in self.options.find_paths():
            for log in _find_logs_so_far(path, self.options.cwd):
                if not self.options.selects(partition_number(log.partition)):
                    continue
                if partition_number(log.partition) in logs:
                    raise UsageError(f"{path}: partition {partition_number(log.partition)} is in two folders")
                logs[partition_number(log.partition)] = log.limit_batches(self.options.topic.max_batch_bytes)
        return logs


def _find_logs_so_far(path: str, folder: str) -> list[Log]:
    try:
        return find_logs(path, folder)
    except UsageError:
        if os.path.isdir(os.path.join(folder, local_path(path) or "")):
            return []
        raise


def _batch_rows(log: Log, position: Position, end_offset: int, damage: Damage | None) -> Iterator[Row]:
    place = {"partition": partition_number(log.partition)}
    for batch, data in _read_until(log, position, end_offset):
        batch_place = {"file": batch.file, "position": batch.position}
        yield place | batch_place | {"base_offset": batch.base_offset, "next_offset": batch.next_offset, "bytes": data}
    if damage is not None:
        row = {"file": damage.file, "position": damage.position, "damage": damage.reason, "bytes": b""}
        yield place | row | {"base_offset": damage.offset, "next_offset": damage.offset}


def _limit_sizes(log: Log, file_sizes: Mapping[str, int]) -> Log:
    return log.select_ranges(
        {segment: ByteRange(0, file_sizes.get(_file_path(log, segment), 0)) for segment in log.segments}
    )


class FoundEnd(NamedTuple):
    """The position after the last batch that was found, this batch, if there is one, and what is wrong there, if
    anything. It is no damage if a broker may still be writing the batch.
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
                damage = _falling_offsets(previous, frame.base_offset, before.position.next_offset)
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
    epochs = [batch.data[EPOCH] for batch in (found, last)]
    return found.frame.next_offset == last.frame.next_offset and epochs[0] == epochs[1]


def _falling_offsets(previous: Position, next_offset: int, offset: int) -> Damage:
    reason = f"the offsets fall from {previous.next_offset} to {next_offset}"
    return Damage(previous.segment, previous.byte, offset, reason)


def _read_until(log: Log, position: Position, end_offset: int) -> Iterator[tuple[Batch, bytes]]:
    """Yield in order the batches after a position whose base offset is below `end_offset`, with their bytes in the log.

    Raises InvalidLog if a batch is damaged: the file has changed since `find_end` read the batch. Raises UsageError if
    a file was deleted.
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


class ConsumerOffsets(DataSource):
    """The data source. The options are checked when Spark requests the schema or a reader."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return schema_ddl(Options.parse(self.options).columns)

    def reader(self, schema: StructType) -> ConsumerOffsetsReader:
        options = Options.parse(self.options)
        if options.table == "batches":
            raise UsageError("only streams have table batches: use spark.readStream")
        if options.starting_offsets != {}:
            raise UsageError("only streams have startingOffsets: use spark.readStream, or filter the column offset")
        check_schema(options, schema)
        return ConsumerOffsetsReader(options, schema)

    def streamReader(self, schema: StructType) -> OffsetsStream:
        options = Options.parse(self.options)
        if options.topic.past_damage:
            raise UsageError("option past_damage: a stream ends with an error at damaged bytes")
        if options.groups:
            raise UsageError("option groups: a stream has the rows of all groups; filter the column group")
        check_schema(options, schema)
        places = {"path", "cluster"} & set(schema.names)
        if places:
            raise UsageError(f"a stream has no column {min(places)}")
        return OffsetsStream(options, schema)


@dataclass
class Task(InputPartition):
    """The logs that one task loads, and how many partitions the topic has; None if it is not known.

    Without the option, a folder with the partitions 0 to n-1 counts as a topic of n partitions.
    """

    logs: list[Log]
    partitions: int | None


class ConsumerOffsetsReader(DataSourceReader):
    """The reader of DataFrames that are not streams, which Spark pickles."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.groups and "group" not in {column.name for column in options.all_columns}:
            raise UsageError(f"option groups: the table {options.table} has no column group")
        self.options = options
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return the tasks: at most as many as the option `tasks` says, with about the same number of bytes each."""
        paths = self.options.find_paths()
        logs = find_all_logs(paths, self.options.cwd)
        numbers = {partition_number(log.partition) for log in logs}
        is_whole = len(paths) == 1 and numbers == set(range(len(logs)))
        count = self.options.topic.partitions or (len(logs) if is_whole else None)
        selected = self._select_partitions(numbers)
        sized_logs = [(log.size, log) for log in logs if partition_number(log.partition) in selected]
        return [Task(task_logs, count) for task_logs in distribute(sized_logs, self.options.tasks)]

    def _select_partitions(self, numbers: set[int]) -> set[int]:
        options = self.options
        selected = set(filter(options.selects, numbers))
        count = options.topic.partitions
        # The classic coordinator uses the records of a group from all partitions.
        uses_home_partitions = options.topic.coordinator == "new" and options.table in GROUP_TABLES
        if count is None or not options.groups or not uses_home_partitions or any(map(has_wildcard, options.groups)):
            return selected
        # A log without a partition number can contain any group, so this log is always selected.
        return selected & {partition_number(None), *(partition_for(group, count) for group in options.groups)}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's logs as Arrow record batches.

        Raises a UsageError if a file cannot be read, and an InvalidLog at damage with the option `failOnDamage`.
        """
        assert isinstance(partition, Task)
        for log in partition.logs:
            yield from self._read_log(log, partition.partitions)
        exclude_objects_from_gc()

    def _read_log(self, log: Log, partitions: int | None) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        options = self.options
        schema = to_arrow_schema(self.schema, timezone="UTC")
        place = {"path": pa.scalar(log.path, pa.string()), "cluster": pa.scalar(options.cluster, pa.string())}
        names = [name for name in schema.names if name not in place]
        if not names or (options.groups and "group" not in names):
            names.append("group" if options.groups else "partition")
        topic = options.topic.open(find_logs=lambda path: [log])
        moved: set[str] = set()
        for batch in read_topic_table(topic, options.table, names):
            if options.groups:
                batch = batch.filter(self._find_wanted(batch["group"]))
            if partitions and options.table != "records" and "group" in names:
                groups = pc.unique(batch["group"]).drop_null().to_pylist()
                moved.update(name for name in groups if partition_for(name, partitions) != log.partition)
            columns = [pa.repeat(place[name], len(batch)) if name in place else batch[name] for name in schema.names]
            # The batch must have Spark's schema. In a schema that the user has set, every column can be null.
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        damage = topic.logs[0].damage
        if damage is not None and options.fail_on_damage:
            raise damage_error(damage)
        if damage is not None:
            print(damage, file=sys.stderr)
        if moved:
            print(_describe_moved(log, moved, partitions), file=sys.stderr)

    def _find_wanted(self, groups: pa.Array) -> pa.Array:
        import pyarrow as pa

        names = groups.unique().drop_null().to_pylist()
        wanted = {name for pattern in self.options.groups for name in match_groups(names, pattern)}
        return pa.compute.is_in(groups, value_set=pa.array(sorted(wanted), pa.string()))


def _describe_moved(log: Log, groups: set[str], partitions: int | None) -> str:
    names = ", ".join(sorted(groups)[:NAMED_GROUPS])
    return (
        f"{log.path}: with {partitions} partitions, these groups belong elsewhere: {len(groups)}, such as {names}. If "
        "the partition count of the topic was changed, rows of these groups can stand in this table twice, once for "
        "each partition. kafkagroups.spark.load returns them once"
    )
