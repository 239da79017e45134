"""A snapshot that a Spark stream keeps up to date: each micro-batch adds the new batches of a growing topic.

A micro-batch has the batches that follow those in the snapshot. One task per log partition reads the state of its
partition, adds the batches and writes the new state. Then the driver commits the new states as the snapshot.

A crash at any point leaves the previous snapshot intact. Repeated batches are added to the old state, and a state skips
the batches that it already contains, by their offsets. So nothing is lost or counted twice, even if the stream's
checkpoint is lost.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from kafkagroups.groups.shard import Shard
from kafkagroups.loading.engines import COMPILED_FROM
from kafkagroups.loading.snapshots import files
from kafkagroups.loading.snapshots.states import advance_shard
from kafkagroups.log.segment_file import segment_name
from kafkagroups.log.segments import log_of_buffers
from kafkagroups.records.versions import Dialect, dialect
from kafkagroups.spark.session import register, session as get_session
from kafkagroups.tables.rows import partition_number

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def keep(
    path: str | Path,
    folder: str | Path,
    coordinator: str = "new",
    kafka: str | None = None,
    *,
    until_now: bool = False,
    session: SparkSession | None = None,
) -> StreamingQuery:
    """Start a stream that keeps a snapshot of a growing topic up to date.

    Parameters
    ----------
    path : str or Path
        The log of the growing topic. Every executor must see it.
    folder : str or Path
        The snapshot's folder: empty, or with a snapshot of the same coordinator. Every executor must see it.
    coordinator : str
        ``"classic"`` or ``"new"``.
    kafka : str, optional
        The coordinator's Kafka version.
    until_now : bool
        End the stream when it has read everything that existed at its start.
    session : SparkSession, optional
        The session to use (default: the one of :func:`session`).

    Returns
    -------
    StreamingQuery
        The running stream. After each micro-batch, ``snapshots.Snapshot.read(folder).groups()`` returns what the
        coordinator would answer. A partition that fails to load remains failed.

    Raises
    ------
    UsageError
        The coordinator is unknown, or the folder contains other files or a snapshot of another coordinator.
    """
    rules = dialect(coordinator, kafka)
    place = Path(folder).absolute()
    files.prepare(place)
    if files.is_there(place):
        files.check(place, rules)
    else:
        # Without a snapshot, the batches that an old checkpoint skips would be lost.
        shutil.rmtree(place / files.CHECKPOINT, ignore_errors=True)
    session = session or get_session()
    register(session)
    reader = session.readStream.format("consumer_offsets").option("table", "batches")
    writer = reader.load(str(Path(path).absolute())).writeStream.foreachBatch(
        lambda batches, batch_id: add_batches(batches, place, rules)
    )
    writer = writer.option("checkpointLocation", str(place / files.CHECKPOINT))
    if until_now:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def add_batches(batches: DataFrame, folder: Path, rules: Dialect) -> None:
    """Add a micro-batch of table `batches` to the snapshot in the folder."""
    number = files.prepare(folder)
    old = files.read(folder).partitions if files.is_there(folder) else {}
    done = batches.groupBy("partition").applyInArrow(
        _partition_task(folder, number, rules, {partition_number(p): file for p, (file, _) in old.items()}),
        "partition int, file string, next_offset long",
    )
    new = {None if row.partition < 0 else row.partition: (row.file, row.next_offset) for row in done.collect()}
    if new:
        files.commit(folder, number, rules, old | new)


def _partition_task(
    folder: Path, number: int, rules: Dialect, old_files: dict[int, str]
) -> Callable[[pa.Table], pa.Table]:
    """Return a function that adds the batches of one log partition to its state and writes the new state."""

    def run(table: pa.Table) -> pa.Table:
        import pyarrow as pa

        table = table.sort_by("base_offset")
        partition: int = table["partition"][0].as_py()
        name = None if partition < 0 else partition
        before = files.read_shard(folder / old_files[partition], name, rules) if partition in old_files else None
        state = advance_state(before, table, name, rules)
        file = files.name(name, number, uuid4().hex)  # The random id separates two runs of the same task.
        files.write_shard(folder / file, state)
        return pa.table(
            {
                "partition": pa.array([partition], pa.int32()),
                "file": [file],
                "next_offset": pa.array([state.loaded.next_offset], pa.int64()),
            }
        )

    return run


def advance_state(before: Shard | None, table: pa.Table, partition: int | None, rules: Dialect) -> Shard:
    """Return the state after these batches, which are in order; batches that it already contains are skipped."""
    since = before.loaded.next_offset if before else -1
    rows = zip(*(table[name].to_pylist() for name in ("base_offset", "next_offset", "bytes")), strict=True)
    new = [(base, end, content) for base, end, content in rows if end > since]
    if before and (not new or before.failure is not None):
        ends = [end for _, end, _ in new]
        return replace(before, loaded=replace(before.loaded, next_offset=max([since, *ends])))
    content = b"".join(content for _, _, content in new)
    log = log_of_buffers([(segment_name(new[0][0]), content)], partition)
    state = advance_shard(before, log, rules, len(content) >= COMPILED_FROM)
    segments = before.loaded.segments if before else 1
    return replace(state, loaded=replace(state.loaded, segments=segments))
