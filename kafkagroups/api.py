"""The public verbs. They read logs, choose who loads them, and hand out results; what things mean lives in groups/."""

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
from kafkagroups.records.versions import dialect
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
    """The groups as a coordinator ("classic" or "new") of a Kafka version would answer after loading `path`.

    `path` is a partition directory, one .log file, or a folder of partition directories (one broker). `partitions`
    is the topic's partition count: with it the new coordinator answers a group from its home partition only. `until`
    takes records below an offset (of one partition), `until_time` batches up to the first whose newest record is
    after it (ms since the epoch). `engine`: "python" is the loader to read, "compiled" the one to run (numba), "auto"
    chooses by size; the result is the same. The compiled one folds `threads` partitions at once (0: as many as there
    are CPUs). `progress` hears of "loading" and the bytes read of how many, from any thread. A load that fails as that
    broker's would is no exception: see `partitions`.

    UsageError: no such path, no log in it, an unknown coordinator or engine.

    >>> groups = load("data/harbour/3.9.2", coordinator="classic")
    >>> groups["billing"].state.value, groups["billing"].generation
    ('Stable', 6)
    """
    logs, rules = open_for_load(path, coordinator, kafka, partitions, until)
    return load_logs(
        logs,
        rules,
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
    """Every record that touched a group, or one of its offsets, what became of it, and what a broker answers now.

    `topic` and `partition` choose one offset. The other arguments are those of `load`; so are the errors.

    >>> story = explain("data/harbour/3.9.2", "billing", "orders", 0, coordinator="classic")
    >>> [(record.offset, record.fate.value) for record in story.history][-2:]
    [(37, 'superseded'), (42, 'wins')]
    """
    offset = choose_offset(topic, partition)
    logs, rules = open_for_load(path, coordinator, kafka, partitions, until)
    return explain_group(
        logs, rules, group, offset, path=str(path), partitions=partitions, stop=Stop(until, until_time)
    )


def diff(a: Groups, b: Groups) -> dict[str, dict[str, Any]]:
    """What differs between two loads: `{"groups": {name: [a, b]}, "offsets": {name: {key: [a, b]}}, "pending": …}`."""
    return compare(a, b)


def stats(
    path: str | Path,
    by: str = "group",
    *,
    coordinator: str = "new",
    kafka: str | None = None,
    partitions: int | None = None,
) -> Stats:
    """What a log holds and why it is so big: see `Stats.partitions` and `Stats.rows`, counted `by` what is asked.

    The other arguments are those of `load`; so are the errors.
    """
    check_row_names(by)
    logs, rules = open_for_load(path, coordinator, kafka, partitions)
    return count_logs(logs, rules, by, path=str(path), partitions=partitions)


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
    """Writes into `out`, a new or empty folder, what one pass of Kafka 4.3.1's log cleaner leaves of one partition.

    `now_ms` is the pass's time (None: the newest in the log), `first_dirty` where the clean part ends (None: at the
    log's start), `first_uncleanable` where the pass stops (None: at the active segment or the last stable offset),
    moved down to its segment's base; `map_entries` how many keys the offset map takes (None: as many as a
    broker's); a producer whose last batch is older than `producer_expiration_ms` is not active (-1: all are). All
    segments that are then in the log are written. `progress` hears of a step and the bytes read of how many.

    UsageError: no such path, several partitions, a folder that is not empty, a number out of range. InvalidLog and
    InvalidRecord: what Kafka's cleaner could not read either, and then `out` stays empty. Damage ends the log instead.
    """
    logs = open_logs(path)
    if len(logs) > 1:
        raise UsageError(f"compaction takes one partition, {path} has {len(logs)}")
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
    """One table (columns.TABLES) of one log partition, as Arrow record batches; `.read_all()` makes one pyarrow.Table.

    This is the seam: whoever wants columns comes through here, whatever fills them. `buffers` are the segments in
    order, (name, bytes or memory map), or a mapping that reads each when it is asked for, or a log that was opened;
    `partition` is the log's number (an opened one knows its own), `partitions` the topic's count (as in `load`);
    `columns` only these, in this order; `engine` as in `load`. Rows have no order. Damage, and a load that fails as
    that broker's, stand in table `partitions`.

    UsageError: no segment, an unknown table, column, coordinator or engine.

    >>> path = "data/harbour/3.9.2/__consumer_offsets-9/00000000000000000000.log"
    >>> batches = load_columns([(path, Path(path).read_bytes())], table="groups", coordinator="classic", partition=9)
    >>> batches.read_all().select(["group", "state", "generation"]).to_pylist()[0]
    {'group': 'billing', 'state': 'Stable', 'generation': 6}
    """
    import pyarrow as pa

    chosen = columns_of(table, columns)
    rules = dialect(coordinator, kafka)
    log = buffers if isinstance(buffers, Log) else log_of_buffers(buffers, partition)
    chosen_engine = choose_engine_for(engine, [log])
    if table != "records":
        return read_table(
            load_logs([log], rules, partitions=partitions, engine=chosen_engine),
            table,
            [column.name for column in chosen],
        )
    content = rows.record_rows(log, rules, with_json=any(column.name == "json" for column in chosen))
    return pa.RecordBatchReader.from_batches(arrow_schema(chosen), record_batches(table, chosen, content))


def loaded_columns(groups: Groups, table: str) -> pa.RecordBatchReader:
    """The same of what is loaded already; every table but `records`."""
    return read_table(groups, table)
