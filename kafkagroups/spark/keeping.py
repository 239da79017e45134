"""A snapshot that a Spark stream keeps up to date with a growing topic.

Spark runs a stream in micro-batches, of which each contains the Kafka batches that the snapshot does not contain yet.
For each log partition, one task loads the saved segment and then the Kafka batches, and writes a new segment
(loading/snapshots.py). After all tasks, Spark's driver saves a snapshot that names the new segments.

A crash at any point leaves the previous snapshot intact. After it, Spark sends some Kafka batches again, and a task
skips those that the snapshot already contains. So no Kafka batch is lost or added twice, even if Spark's checkpoint of
the stream's progress is lost.
"""

from __future__ import annotations

import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.loading import snapshots
from kafkagroups.loading.load import choose_engine
from kafkagroups.log.batches import Damage
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.segment_file import WHOLE_FILE
from kafkagroups.log.segments import log_of_buffers
from kafkagroups.records import releases
from kafkagroups.records.releases import Dialect
from kafkagroups.spark.session import register, session as get_session
from kafkagroups.spark.tasks import is_remote, task_errors, warn_of_damage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WRITTEN = "damage string, saved string"


def keep(
    path: str | Path,
    folder: str | Path,
    coordinator: str | None = None,
    kafka: str | None = None,
    *,
    until_now: bool = False,
    session: SparkSession | None = None,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    fail_on_damage: bool = True,
) -> StreamingQuery:
    """Start a stream that keeps a snapshot of a growing topic up to date.

    Parameters
    ----------
    path : str or Path
        The log of the growing topic. Every executor must see its files.
    folder : str or Path
        The snapshot's folder: empty, or with a snapshot of the same coordinator. Every executor must see it.
    coordinator, kafka, max_batch_bytes
        As in ``kafkagroups.load``. The stream fails at a larger batch.
    until_now : bool
        If True, the stream ends when it has read everything that existed at its start.
    session : SparkSession, optional
        The session to use (default: the session that :func:`session` returns).
    fail_on_damage : bool
        Whether the stream fails at damaged bytes, with an error that names the file and the offset. False: the snapshot
        ends at the damage and goes on when the file is repaired. ``Groups.problems`` of the snapshot then has the
        reason, and so has a warning (``kafkagroups.spark.DamagedLog``). A batch that a broker may still be writing is
        no damage: it is waited for.

    Returns
    -------
    StreamingQuery
        The running stream. After each micro-batch, ``snapshots.Snapshot.read(folder).groups()`` returns the groups that
        the coordinator would have. If a broker's load of a partition would fail, the partition counts as failed in
        all later snapshots, too.

    Raises
    ------
    UsageError
        The coordinator is unknown, the folder contains other files or a snapshot of another coordinator, or the session
        is one of Spark Connect.
    InvalidLog
        The bytes of the snapshot in the folder are damaged.
    """
    from kafkagroups.loading.columns import schema_ddl
    from kafkagroups.spark.options import LOCATED_BATCHES

    if is_remote():
        raise UsageError(
            "keep runs on the driver, which writes the snapshot; on Spark Connect that is another machine: run it with "
            "spark-submit, or in a classic session"
        )
    dialect = releases.dialect(coordinator, kafka)
    directory = Path(folder).absolute()
    snapshots.prepare_folder(directory)
    snapshot = snapshots.Snapshot.resume(directory, dialect)
    for note in snapshot.notes:
        warnings.warn(note, stacklevel=2)
    if not snapshot.partitions:
        snapshots.commit_save(directory, dialect, [])
        # With an old checkpoint, Spark would skip batches that no snapshot contains.
        shutil.rmtree(directory / snapshots.CHECKPOINT, ignore_errors=True)
    session = session or get_session()
    register(session)
    reader = session.readStream.format("consumer_offsets").option("table", "batches")
    reader = reader.option("failOnDamage", fail_on_damage)
    reader = reader.schema(schema_ddl(LOCATED_BATCHES))
    writer = reader.load(str(Path(path).absolute())).writeStream.foreachBatch(
        lambda batches, batch_id: add_batches(batches, directory, dialect, max_batch_bytes)
    )
    writer = writer.option("checkpointLocation", str(directory / snapshots.CHECKPOINT))
    if until_now:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def add_batches(batches: DataFrame, folder: Path, dialect: Dialect, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
    """Add a micro-batch to the snapshot in a folder.

    For each log partition, a task adds the batches to the saved segment, and writes a new segment.
    """
    old_saved = {saved.partition: saved for saved in snapshots.read_manifest(folder).partitions}

    def advance(table: pa.Table) -> pa.Table:
        import pyarrow as pa

        table = table.sort_by("base_offset")
        number: int = table["partition"][0].as_py()
        partition = None if number < 0 else number
        old = snapshots.KeptPartition.read(folder, old_saved[partition]) if partition in old_saved else None
        kept = advance_partition(old, table, partition, dialect, max_batch_bytes)
        # Positions in `table` are not those of the log's files, so a load of the files cannot go on from here.
        saved = msgspec.structs.replace(kept.save(folder, dialect), ends={}, last_batch=None)
        row = {"damage": str(saved.loaded.damage or ""), "saved": msgspec.json.encode(saved).decode()}
        return pa.Table.from_pylist([row])

    with task_errors():
        rows = batches.groupBy("partition").applyInArrow(advance, WRITTEN).collect()
    new_saved = {
        saved.partition: saved for saved in (msgspec.json.decode(row["saved"], type=snapshots.Saved) for row in rows)
    }
    snapshots.commit_save(folder, dialect, (old_saved | new_saved).values())
    warn_of_damage([row["damage"] for row in rows if row["damage"]])


def advance_partition(
    old: snapshots.KeptPartition | None,
    table: pa.Table,
    partition: int | None,
    dialect: Dialect,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> snapshots.KeptPartition:
    """Return a log partition after the Kafka batches in `table`, which are in the order of the log.

    If a broker's load would fail at an earlier batch, only the next offset changes. The last row can be the damage at
    which the log ends. Raises InvalidLog if a batch is larger than `max_batch_bytes` after decompression.
    """
    rows = table.to_pylist()
    damage = None
    if rows[-1]["damage"] is not None:
        row = rows.pop()
        damage = Damage(row["file"], row["position"], row["base_offset"], row["damage"])
    saved = None if old is None else old.saved
    old_end = -1 if saved is None else saved.loaded.next_offset
    new_batches = [row for row in rows if row["next_offset"] > old_end]
    if old is not None and saved is not None and (not new_batches or not saved.file):
        next_offset = max([old_end, *(row["next_offset"] for row in new_batches)])
        loaded = replace(saved.loaded, next_offset=next_offset, damage=damage)
        return replace(old, saved=msgspec.structs.replace(saved, loaded=loaded), folded=None)
    bytes_by_file: dict[str, bytearray] = {}
    starts: dict[str, int] = {}
    for row in new_batches:
        starts.setdefault(row["file"], row["position"])
        bytes_by_file.setdefault(row["file"], bytearray()).extend(row["bytes"])
    if damage is not None:
        bytes_by_file.setdefault(damage.file, bytearray())
    log = log_of_buffers(bytes_by_file, partition).limit_batches(max_batch_bytes)
    ranges = dict.fromkeys(bytes_by_file, WHOLE_FILE)
    kept = snapshots.KeptPartition(log, log) if old is None else old.join(log, ranges)
    (shard,) = choose_engine("auto").fold_logs([kept.log], dialect)
    loaded = kept.take(shard).loaded
    # In `log`, each file begins at its first new batch. So the position of an error must be converted to a position in
    # the whole file.
    if loaded.damage is not None:  # The stream has checked the checksums.
        position = starts[loaded.damage.file] + loaded.damage.position
        raise InvalidLog(loaded.damage.reason, file=loaded.damage.file, position=position, offset=loaded.damage.offset)
    if isinstance(shard.failure, InvalidLog) and shard.failure.position is not None:
        shard.failure.position += starts[str(shard.failure.file)]
    # `log` contains only the new batches, so the segments of `log` are not all segments of the log partition.
    loaded.segments = 1 if saved is None else saved.loaded.segments
    loaded.damage = damage
    return kept
