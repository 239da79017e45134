"""A snapshot that a Spark stream keeps up to date with a growing topic.

Spark runs a stream in micro-batches, and says of which log partitions each has new batches. Spark's driver then
advances the snapshot by the files of these partitions (loading/snapshots.py), so that any load can go on from it.

A crash at any point leaves the previous snapshot intact. After it, Spark sends some batches again, which changes
nothing, because the snapshot says up to where it holds. So no batch is lost or added twice, even if Spark's checkpoint
of the stream's progress is lost.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.loading import snapshots
from kafkagroups.loading.columns import partition_number
from kafkagroups.loading.snapshots import Snapshot
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.folders import open_logs
from kafkagroups.records import releases
from kafkagroups.spark.session import register, session as get_session
from kafkagroups.spark.tasks import is_remote, task_errors, warn_of_damage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_COLUMNS = "partition int, next_offset long, damage string"


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
        The snapshot's folder: empty, or with a snapshot of the same coordinator.
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
        the coordinator would have.

    Raises
    ------
    UsageError
        The coordinator is unknown, the folder contains other files or a snapshot of another coordinator, or the session
        is one of Spark Connect.
    InvalidLog
        The bytes of the snapshot in the folder are damaged.
    """
    if is_remote():
        raise UsageError(
            "keep runs on the driver, which writes the snapshot; on Spark Connect that is another machine: run it with "
            "spark-submit, or in a classic session"
        )
    dialect = releases.dialect(coordinator, kafka)
    directory = Path(folder).absolute()
    snapshot = Snapshot.resume(directory, dialect)
    for note in snapshot.notes:
        warnings.warn(note, stacklevel=2)
    if not snapshot.partitions:
        snapshot.save(directory)
        # With an old checkpoint, Spark would skip batches that no snapshot contains.
        shutil.rmtree(directory / snapshots.CHECKPOINT, ignore_errors=True)
    session = session or get_session()
    register(session)
    log = str(Path(path).absolute())
    reader = session.readStream.format("consumer_offsets").option("table", "batches").schema(_COLUMNS)
    batches = reader.option("failOnDamage", fail_on_damage).load(log)
    writer = batches.writeStream.option("checkpointLocation", str(directory / snapshots.CHECKPOINT))
    writer = writer.foreachBatch(lambda batches, batch_id: advance(log, directory, find_ends(batches), max_batch_bytes))
    if until_now:
        writer = writer.trigger(availableNow=True)
    return writer.start()


class End(NamedTuple):
    """Where a micro-batch ends in a log partition, and the damage that ends the log there."""

    offset: int
    damage: str | None


def find_ends(batches: DataFrame) -> dict[int, End]:
    from pyspark.sql import functions as F

    with task_errors():
        ends = batches.groupBy("partition").agg(F.max("next_offset").alias("offset"), F.max("damage").alias("damage"))
        return {row["partition"]: End(row["offset"], row["damage"]) for row in ends.collect()}


def advance(path: str, folder: Path, ends: Mapping[int, End], max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
    """Advance the snapshot in a folder by the logs of which a micro-batch has batches.

    The stream knows which incomplete batch is damage, and which one a broker is still writing.
    """
    logs = [log.limit_batches(max_batch_bytes) for log in open_logs(path) if partition_number(log.partition) in ends]
    snapshot = Snapshot.read(folder).advance_logs(logs)
    damages = []
    for log in logs:
        loaded = snapshot.partitions[log.partition].get_shard(snapshot.dialect).loaded
        end = ends[partition_number(log.partition)]
        damage = loaded.damage
        if damage is not None and loaded.next_offset < end.offset:
            raise InvalidLog(damage.reason, file=damage.file, position=damage.position, offset=damage.offset)
        if end.damage is None:
            loaded.damage = None
        elif damage is not None:
            damages.append(damage)
    snapshot.save(folder)
    warn_of_damage(damages)
