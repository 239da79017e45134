"""A snapshot that a Spark stream keeps up to date with a growing topic.

Spark runs a stream in steps, which it calls micro-batches. A micro-batch contains the Kafka batches that the snapshot
does not contain yet. For each log partition, one task reads the saved state, adds the Kafka batches, and writes the new
state to a new file. The state of a log partition is a shard: the groups and offsets of the partition
(groups/shard.py). After all tasks, Spark's driver saves a snapshot that names the new files.

A crash at any point leaves the previous snapshot intact. After a crash, Spark sends some Kafka batches again. A task
compares offsets, and skips the Kafka batches that the state already contains. So no Kafka batch is lost or added twice,
even if Spark's checkpoint is lost. The checkpoint is the folder in which Spark stores the progress of the stream.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from kafkagroups.errors import InvalidLog
from kafkagroups.groups.shard import Shard
from kafkagroups.loading.engines import choose_engine
from kafkagroups.loading.snapshots import files
from kafkagroups.loading.snapshots.state_files import SavedState, read_state, write_state
from kafkagroups.loading.snapshots.states import advance_shard
from kafkagroups.log.compression import MAX_BATCH_BYTES
from kafkagroups.log.damage import Damage
from kafkagroups.log.segments import log_of_buffers
from kafkagroups.records import dialects
from kafkagroups.records.dialects import Dialect
from kafkagroups.spark.logs import task_errors, warn_of_damage
from kafkagroups.spark.session import register, session as get_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WRITTEN_STATES = "partition long, damage string, file string, next_offset long, size long, checksum long"
"""What a task returns for each log partition: where its log ends because of damage ("": nowhere), and a SavedState."""


def keep(
    path: str | Path,
    folder: str | Path,
    coordinator: str = "new",
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
        The log of the growing topic. Every executor must see the log's files.
    folder : str or Path
        The snapshot's folder. It must be empty, or contain a snapshot of the same coordinator. Every executor must see
        the folder.
    coordinator : str
        ``"classic"`` or ``"new"``.
    kafka : str, optional
        The coordinator's Kafka version.
    until_now : bool
        If True, the stream ends when it has read everything that existed at its start.
    session : SparkSession, optional
        The session to use (default: the session that :func:`session` returns).
    max_batch_bytes : int
        The largest size of one decompressed batch in bytes. The stream fails at a larger batch.
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
        The coordinator is unknown, or the folder contains other files or a snapshot of another coordinator.
    InvalidLog
        The bytes of the snapshot in the folder are damaged.
    """
    from kafkagroups.spark.options import LOCATED_BATCHES, schema_ddl

    dialect = dialects.dialect(coordinator, kafka)
    directory = Path(folder).absolute()
    files.prepare_folder(directory)
    if files.has_snapshot(directory):
        files.check_dialect(directory, dialect)
        _check_states(directory)
    else:
        # With an old checkpoint, Spark would skip batches that no snapshot contains.
        shutil.rmtree(directory / files.CHECKPOINT, ignore_errors=True)
    session = session or get_session()
    register(session)
    reader = session.readStream.format("consumer_offsets").option("table", "batches")
    reader = reader.option("failOnDamage", fail_on_damage)
    reader = reader.schema(schema_ddl(LOCATED_BATCHES))
    writer = reader.load(str(Path(path).absolute())).writeStream.foreachBatch(
        lambda batches, batch_id: add_batches(batches, directory, dialect, max_batch_bytes)
    )
    writer = writer.option("checkpointLocation", str(directory / files.CHECKPOINT))
    if until_now:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def _check_states(folder: Path) -> None:
    """Raise InvalidLog if a file of the snapshot is damaged. Without this check, a task would find the damage later."""
    manifest = files.read_manifest(folder)
    for partition, saved in manifest.states.items():
        read_state(folder, saved, partition, manifest.dialect)


def add_batches(batches: DataFrame, folder: Path, dialect: Dialect, max_batch_bytes: int = MAX_BATCH_BYTES) -> None:
    """Add a micro-batch to the snapshot in a folder. Each row of `batches` is a Kafka batch (stream.py).

    For each log partition, a task reads the saved state, adds the batches, and writes the new state to a new file.
    """
    save_number = files.prepare_folder(folder)
    old_states = files.read_manifest(folder).states if files.has_snapshot(folder) else {}

    def advance(table: pa.Table) -> pa.Table:
        import pyarrow as pa

        table = table.sort_by("base_offset")
        number: int = table["partition"][0].as_py()
        partition = _to_partition(number)
        old_state = read_state(folder, old_states[partition], partition, dialect) if partition in old_states else None
        state = advance_state(old_state, table, partition, dialect, max_batch_bytes)
        # Spark can run a task twice. The random id gives each run its own file.
        saved = write_state(folder, files.state_file_name(partition, save_number, uuid4().hex), state)
        row = {"partition": number, "damage": str(state.loaded.damage or ""), **saved._asdict()}
        return pa.Table.from_pylist([row])

    with task_errors():
        rows = batches.groupBy("partition").applyInArrow(advance, WRITTEN_STATES).collect()
    new_states = {_to_partition(number): SavedState(*saved) for number, _, *saved in rows}
    if new_states:
        files.commit_save(folder, save_number, dialect, old_states | new_states)
    warn_of_damage([row["damage"] for row in rows if row["damage"]])


def _to_partition(number: int) -> int | None:
    """Return the partition for a number in the column `partition`, where -1 stands for None."""
    return None if number < 0 else number


def advance_state(
    old_state: Shard | None,
    table: pa.Table,
    partition: int | None,
    dialect: Dialect,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Shard:
    """Return the state of a log partition after the Kafka batches in `table`, which are in the order of the log.

    `old_state` is None if the partition has no saved state. Batches that the old state already contains are skipped. If
    a broker's load would fail at an earlier batch, only the next offset of the state changes. The last row can be the
    damage at which the log ends. Raises InvalidLog if a batch is larger than `max_batch_bytes` after decompression.
    """
    rows = table.to_pylist()
    damage = None
    if rows[-1]["damage"] is not None:
        row = rows.pop()
        damage = Damage(row["file"], row["position"], row["base_offset"], row["damage"])
    old_end = old_state.loaded.next_offset if old_state else -1
    new_batches = [row for row in rows if row["next_offset"] > old_end]
    if old_state and (not new_batches or old_state.failure is not None):
        next_offset = max([old_end, *(row["next_offset"] for row in new_batches)])
        return replace(old_state, loaded=replace(old_state.loaded, next_offset=next_offset, damage=damage))
    bytes_by_file: dict[str, bytearray] = {}
    first_position_by_file: dict[str, int] = {}
    for row in new_batches:
        first_position_by_file.setdefault(row["file"], row["position"])
        bytes_by_file.setdefault(row["file"], bytearray()).extend(row["bytes"])
    if damage is not None:
        bytes_by_file.setdefault(damage.file, bytearray())
    log = log_of_buffers(bytes_by_file, partition).limit_batches(max_batch_bytes)
    state = advance_shard(old_state, log, dialect, choose_engine("auto"))
    # In `log`, each file begins at its first new batch. So the position of an error must be converted to a position in
    # the whole file.
    too_large = state.loaded.damage
    if too_large is not None:  # The stream has checked the checksums.
        position = first_position_by_file[too_large.file] + too_large.position
        raise InvalidLog(too_large.reason, file=too_large.file, position=position, offset=too_large.offset)
    if isinstance(state.failure, InvalidLog) and state.failure.position is not None:
        state.failure.position += first_position_by_file[str(state.failure.file)]
    # `log` contains only the new batches, so the segments of `log` are not all segments of the log partition.
    segments = old_state.loaded.segments if old_state else 1
    return replace(state, loaded=replace(state.loaded, segments=segments, damage=damage))
