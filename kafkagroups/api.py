"""The public verbs: `load`, `explain`, `diff`, `stats`, `compact`, and the tables as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkagroups.errors import UsageError
from kafkagroups.groups.shard import ignore_bytes
from kafkagroups.history.diff import compare
from kafkagroups.history.explain import Explanation, choose_offset, explain_group
from kafkagroups.history.stats import Stats, check_row_names, count_logs
from kafkagroups.loading.engines import choose_engine_for
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import load_logs, open_for_load
from kafkagroups.loading.progress import ByteProgress
from kafkagroups.log.cleaner import CleanerConfig, Compaction, clean
from kafkagroups.log.log_to_clean import Progress
from kafkagroups.log.offset_map import DEFAULT_CAPACITY
from kafkagroups.log.segment_file import SEGMENT_BYTES
from kafkagroups.log.segments import Buffers, Log, log_of_buffers, open_logs
from kafkagroups.log.stop import Stop
from kafkagroups.records import versions
from kafkagroups.tables import rows
from kafkagroups.tables.arrow import read_table
from kafkagroups.tables.columns import arrow_schema, columns_of, record_batches

if TYPE_CHECKING:
    import pyarrow as pa


def load(
    path: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    partitions: int | None = None,
    until: int | None = None,
    until_time: int | None = None,
    engine: str = "auto",
    threads: int = 0,
    progress: Progress | None = None,
) -> Groups:
    """Return the groups as a coordinator would answer them after loading a log.

    Parameters
    ----------
    path
        A partition directory, one .log file, or a folder of partition directories (one broker).
    coordinator
        "classic" (Kafka up to 3.9) or "new" (from 4.0 on).
    kafka
        The Kafka version whose rules count; None is the newest one that was checked.
    partitions
        The topic's partition count. With it, the new coordinator answers a group from its home partition only.
    until
        Read batches whose base offset is below this offset. A batch is read as a whole, so records above `until`
        can be read: `LoadedPartition.next_offset` is the first offset after the cut. `path` must be one partition.
    until_time
        Read each partition up to the first batch that holds a timestamp after this one (ms since the epoch).
    engine
        "python" is readable, "compiled" is fast and needs numba, "auto" chooses by size. The result is the same.
    threads
        How many partitions the compiled engine loads at the same time; 0 is one per CPU.
    progress
        Called with "loading", the bytes read, and all bytes, from any thread.

    Returns
    -------
    Groups
        A mapping of group ids to groups. A load that fails as that broker's load would is not an exception:
        `Groups.partitions` and `Groups.problems` tell why it fails.

    Raises
    ------
    UsageError
        There is no such path, log, coordinator, version or engine, or two folders are the same partition.

    Notes
    -----
    Kafka's GroupMetadataManager.doLoadGroupsAndOffsets (classic, 3.9.2) and CoordinatorLoaderImpl (new, 4.3.1).

    Examples
    --------
    >>> groups = load("data/harbour/3.9.2", coordinator="classic")
    >>> groups["billing"].state.value, groups["billing"].generation
    ('Stable', 6)
    """
    logs, dialect = open_for_load(path, coordinator, kafka, partitions, until)
    return load_logs(
        logs,
        dialect,
        str(path),
        partitions=partitions,
        stop=Stop(until, until_time),
        engine=choose_engine_for(engine, logs),
        threads=threads,
        count_bytes=ByteProgress(progress, sum(log.size for log in logs)) if progress else ignore_bytes,
    )


def explain(
    path: str | Path,
    group: str,
    topic: str | None = None,
    partition: int | None = None,
    *,
    coordinator: str = "new",
    kafka: str | None = None,
    partitions: int | None = None,
    until: int | None = None,
    until_time: int | None = None,
) -> Explanation:
    """Return every record that touched a group or one of its offsets, and what a broker answers now.

    Parameters
    ----------
    path, coordinator, kafka, partitions, until, until_time
        As in `load`.
    group
        The group's id.
    topic, partition
        One offset of the group; give both or none.

    Returns
    -------
    Explanation
        The records with what became of each, and the broker's answer.

    Raises
    ------
    UsageError
        As in `load`, or only one of topic and partition was given.

    Examples
    --------
    >>> story = explain("data/harbour/3.9.2", "billing", "orders", 0, coordinator="classic")
    >>> [(record.offset, record.fate.value) for record in story.history][-2:]
    [(37, 'superseded'), (42, 'wins')]
    """
    offset = choose_offset(topic, partition)
    logs, dialect = open_for_load(path, coordinator, kafka, partitions, until)
    return explain_group(
        logs, dialect, group, offset, path=str(path), partitions=partitions, stop=Stop(until, until_time)
    )


def diff(a: Groups, b: Groups) -> dict[str, dict[str, Any]]:
    """Return what differs between two loads.

    Parameters
    ----------
    a, b
        Results of `load`: of two logs, of one log at two times, or of two coordinators.

    Returns
    -------
    dict
        `{"groups": {group: [a, b]}, "offsets": {group: {topic-partition: [a, b]}}, "pending": …}`, with only what
        differs. The values are those of `load --json`; None where one side has nothing.

    Examples
    --------
    >>> path = "data/harbour/3.9.2/__consumer_offsets-9"
    >>> sorted(diff(load(path, "classic", until=41), load(path, "classic"))["offsets"])
    ['billing']
    """
    return compare(a, b)


def stats(
    path: str | Path,
    by: str = "group",
    *,
    coordinator: str = "new",
    kafka: str | None = None,
    partitions: int | None = None,
) -> Stats:
    """Return what a log holds and why it is so big.

    Parameters
    ----------
    path, coordinator, kafka, partitions
        As in `load`.
    by
        What the rows count: "group", "topic", "type" or "partition".

    Returns
    -------
    Stats
        `Stats.partitions` and `Stats.rows`.

    Raises
    ------
    UsageError
        As in `load`, or `by` is none of these.

    Examples
    --------
    >>> stats("data/harbour/3.9.2/__consumer_offsets-9", coordinator="classic").partitions[9].next_offset
    44
    """
    check_row_names(by)
    logs, dialect = open_for_load(path, coordinator, kafka, partitions)
    return count_logs(logs, dialect, by, path=str(path), partitions=partitions)


def compact(
    path: str | Path,
    out: str | Path,
    *,
    now_ms: int | None = None,
    delete_retention_ms: int = 86_400_000,
    first_dirty: int | None = None,
    first_uncleanable: int | None = None,
    segment_bytes: int = SEGMENT_BYTES,
    map_entries: int | None = None,
    producer_expiration_ms: int = 86_400_000,
    progress: Progress | None = None,
) -> Compaction:
    """Write what one pass of Kafka's log cleaner leaves of one partition.

    Parameters
    ----------
    path
        One partition, as in `load`. It is not changed.
    out
        A new or empty folder. It gets all segments that are in the log after the pass.
    now_ms
        The time of the pass; None is the newest timestamp in the log.
    delete_retention_ms
        How long tombstones and markers stay after a pass has first seen them (delete.retention.ms).
    first_dirty
        The offset at which the clean part ends; None is the start of the log.
    first_uncleanable
        The offset at which the pass stops, moved down to the base of its segment. None is the active segment or the
        last stable offset, whichever comes first.
    segment_bytes
        The largest segment that the pass makes of several ones.
    map_entries
        How many keys fit into the offset map; None is as many as in a broker's.
    producer_expiration_ms
        A producer whose last batch is older than this is not active; -1 means that all are active.
    progress
        Called with a step, the bytes read in it, and all its bytes.

    Returns
    -------
    Compaction
        Counts before and after the pass, and the offset at which the next pass starts.

    Raises
    ------
    UsageError
        There is no such path, it has several partitions, `out` is not empty, or a number is out of range.
    InvalidLog, InvalidRecord
        Kafka's cleaner could not read the log either; `out` stays empty. Damage at the end only ends the log.

    Notes
    -----
    Kafka's Cleaner and LogCleanerManager (4.3.1).
    """
    logs = open_logs(path)
    if len(logs) > 1:
        raise UsageError(f"compaction needs one partition, but {path} has {len(logs)}")
    config = CleanerConfig(
        now_ms,
        delete_retention_ms,
        first_dirty,
        first_uncleanable,
        segment_bytes,
        DEFAULT_CAPACITY if map_entries is None else map_entries,
        producer_expiration_ms,
    )
    return clean(logs[0], Path(out), config, progress)


def load_columns(
    buffers: Buffers | Log,
    *,
    table: str = "offsets",
    coordinator: str = "new",
    kafka: str | None = None,
    partition: int | None = None,
    partitions: int | None = None,
    columns: Iterable[str] | None = None,
    engine: str = "auto",
) -> pa.RecordBatchReader:
    """Load one log partition and return one table of it as Arrow record batches.

    Spark, Parquet and pandas get their columns here. The rows have no order.

    Parameters
    ----------
    buffers
        The segments in order as (name, bytes or memory map), a mapping that reads each one when it is asked for, or a
        log that `open_log` returned.
    table
        "records", "offsets", "pending", "groups", "members", "partitions" or "ids".
    coordinator, kafka, partitions, engine
        As in `load`.
    partition
        The log's number, unless `buffers` is a log.
    columns
        Only these columns, in this order.

    Returns
    -------
    pyarrow.RecordBatchReader
        `.read_all()` makes one pyarrow.Table. Damage and the reason of a load that fails are in table "partitions".

    Raises
    ------
    UsageError
        There is no segment, or no such table, column, coordinator or engine.

    Examples
    --------
    >>> path = "data/harbour/3.9.2/__consumer_offsets-9/00000000000000000000.log"
    >>> batches = load_columns([(path, Path(path).read_bytes())], table="groups", coordinator="classic", partition=9)
    >>> batches.read_all().select(["group", "state", "generation"]).to_pylist()[0]
    {'group': 'billing', 'state': 'Stable', 'generation': 6}
    """
    import pyarrow as pa

    chosen = columns_of(table, columns)
    dialect = versions.dialect(coordinator, kafka)
    log = buffers if isinstance(buffers, Log) else log_of_buffers(buffers, partition)
    chosen_engine = choose_engine_for(engine, [log])
    if table != "records":
        return read_table(
            load_logs([log], dialect, partitions=partitions, engine=chosen_engine),
            table,
            [column.name for column in chosen],
        )
    content = rows.record_rows(log, dialect, with_json=any(column.name == "json" for column in chosen))
    return pa.RecordBatchReader.from_batches(arrow_schema(chosen), record_batches(table, chosen, content))


def loaded_columns(groups: Groups, table: str) -> pa.RecordBatchReader:
    """Return one table of loaded groups as Arrow record batches.

    Parameters
    ----------
    groups
        What `load` returned.
    table
        As in `load_columns`, except "records".

    Returns
    -------
    pyarrow.RecordBatchReader
        `.read_all()` makes one pyarrow.Table.

    Raises
    ------
    UsageError
        There is no such table.
    """
    return read_table(groups, table)
