"""Current offsets of a growing topic: a stream of new batches, folded onto a snapshot.

Each micro-batch brings batches behind those that the snapshot holds; a task for each of their log partitions reads the
partition's state, folds them on and writes the new state; then the driver makes the new states the snapshot. Whoever is
killed in between has changed nothing: what is folded again is folded onto the old state, and what a state holds already
is skipped by its offset. So nothing is lost or doubled, whatever becomes of the stream's checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from kafkagroups.loading.engines import COMPILED_FROM
from kafkagroups.loading.snapshots import files
from kafkagroups.loading.snapshots.states import PartitionState, advanced
from kafkagroups.log.segment_file import segment_name
from kafkagroups.log.segments import log_of_buffers
from kafkagroups.records.versions import Dialect, dialect
from kafkagroups.spark.session import register, session as get_session
from kafkagroups.tables.rows import number as number_of

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
    """Starts a stream that keeps `folder` a snapshot of the growing topic at `path`; every executor must see both.

    `until_now`: it ends when all that was there has been read. `snapshots.Snapshot.read(folder).groups()` is what the
    coordinator would answer after the last micro-batch. A partition whose load fails stays failed.

    UsageError: an unknown coordinator, a folder with something else in it, or with a snapshot of another one.
    """
    rules = dialect(coordinator, kafka)
    place = Path(folder).absolute()
    files.prepare(place)
    if files.is_there(place):
        files.check(place, rules)
    else:  # a checkpoint without its snapshot knows of batches that are folded nowhere
        shutil.rmtree(place / files.CHECKPOINT, ignore_errors=True)
    session = session or get_session()
    register(session)
    reader = session.readStream.format("consumer_offsets").option("table", "batches")
    writer = reader.load(str(Path(path).absolute())).writeStream.foreachBatch(
        lambda batches, batch_id: fold_on(batches, place, rules)
    )
    writer = writer.option("checkpointLocation", str(place / files.CHECKPOINT))
    return (writer.trigger(availableNow=True) if until_now else writer).start()


def fold_on(batches: DataFrame, folder: Path, rules: Dialect) -> None:
    """Folds a micro-batch of table `batches` onto the snapshot in the folder."""
    number = files.prepare(folder)
    there = files.read(folder).partitions if files.is_there(folder) else {}
    done = batches.groupBy("partition").applyInArrow(
        _task(folder, number, rules, {number_of(p): file for p, (file, _) in there.items()}),
        "partition int, file string, next_offset long",
    )
    new = {None if row.partition < 0 else row.partition: (row.file, row.next_offset) for row in done.collect()}
    if new:
        files.commit(folder, number, rules, there | new)


def _task(folder: Path, number: int, rules: Dialect, there: dict[int, str]) -> Callable[[pa.Table], pa.Table]:
    def run(table: pa.Table) -> pa.Table:
        import pyarrow as pa

        table = table.sort_by("base_offset")
        partition: int = table["partition"][0].as_py()
        name = None if partition < 0 else partition
        before = files.read_state(folder / there[partition], rules) if partition in there else None
        state = folded(before, table, name, rules)
        file = files.name(name, number, uuid4().hex)  # a task that runs twice writes two files
        files.write_state(folder / file, state)
        return pa.table(
            {
                "partition": pa.array([partition], pa.int32()),
                "file": [file],
                "next_offset": pa.array([state.loaded.next_offset], pa.int64()),
            }
        )

    return run


def folded(before: PartitionState | None, table: pa.Table, partition: int | None, rules: Dialect) -> PartitionState:
    """The state after these batches, which stand in order; those that it holds already are skipped."""
    since = before.loaded.next_offset if before else -1
    rows = zip(*(table[name].to_pylist() for name in ("base_offset", "next_offset", "bytes")), strict=True)
    new = [(base, end, content) for base, end, content in rows if end > since]
    if before and (not new or before.shard is None):
        ends = [end for _, end, _ in new]
        return replace(before, loaded=replace(before.loaded, next_offset=max([since, *ends])))
    content = b"".join(content for _, _, content in new)
    log = log_of_buffers([(segment_name(new[0][0]), content)], partition)
    state = advanced(before, log, rules, len(content) >= COMPILED_FROM)
    segments = before.loaded.segments if before else 1
    return replace(state, loaded=replace(state.loaded, segments=segments))
