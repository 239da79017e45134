"""The errors of a snapshot that a stream keeps: they name the file and the position of the topic's segment."""

from pathlib import Path

import pyarrow as pa
import pytest
from crc32c import crc32c
from pyspark.sql.pandas.types import from_arrow_schema

import kafkagroups as kg
from kafkagroups import dialect
from kafkagroups.loading.columns import arrow_schema
from kafkagroups.loading.snapshots import Snapshot
from kafkagroups.log.segment_file import find_frames
from kafkagroups.spark.keeping import advance_partition
from kafkagroups.spark.options import LOCATED_BATCHES
from kafkagroups.spark.source import ConsumerOffsets
from kafkagroups.spark.tasks import task_errors

RULES = dialect("classic", None)


def with_bad_record(data, position):
    """Return a segment whose batch at a position has a record of a wrong size, under the right checksum."""
    (size,) = [frame.size for frame in find_frames(data) if frame.position == position]
    batch = bytearray(data[position : position + size])
    batch[61] = 1
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return data[:position] + bytes(batch) + data[position + size :]


def new_rows(path, start):
    """Return a micro-batch of the stream, which begins at an offset of the stream, and its end."""
    options = {"path": str(path), "table": "batches"}
    stream = ConsumerOffsets(options).streamReader(from_arrow_schema(arrow_schema(LOCATED_BATCHES)))
    end = stream.latestOffset(start, None)
    batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
    return pa.Table.from_batches(batches), end


@pytest.mark.parametrize("number", [1, 2, 5])
def test_an_error_after_a_resume_has_the_position_in_the_file(number, tmp_path):
    """The load of the kept snapshot fails with the same message as the load of the whole log."""
    (segment,) = Path("data/harbour/3.9.2/__consumer_offsets-9").glob("*.log")
    data = segment.read_bytes()
    position = list(find_frames(data))[number].position
    path = tmp_path / "__consumer_offsets-9"
    path.mkdir()
    (path / segment.name).write_bytes(data[:position])
    rows, end = new_rows(path, {})
    kept = Snapshot(RULES, {9: advance_partition(None, rows, 9, RULES)})
    kept.save(tmp_path / "state")
    (path / segment.name).write_bytes(with_bad_record(data, position))
    rows, _ = new_rows(path, end)
    problems = Snapshot(RULES, {9: advance_partition(kept.partitions[9], rows, 9, RULES)}).groups(str(path)).problems
    assert f"byte {position}: expected" in problems[0]
    assert problems == kg.load(path, "classic").problems


def test_a_damaged_segment_is_named_by_the_driver():
    """If a task finds a damaged segment, the driver raises the InvalidLog of the task, without Spark's exception."""
    with pytest.raises(kg.InvalidLog, match=r"^/state/3\.log: the snapshot cannot be read"), task_errors():
        raise RuntimeError("at java\nkafkagroups.errors.InvalidLog: /state/3.log: the snapshot cannot be read: x\n")


@pytest.mark.java
def test_a_damaged_snapshot_is_not_kept(session, tmp_path):
    """A stream does not start with a damaged snapshot."""
    from kafkagroups import spark as kgs
    from kafkagroups.loading.snapshots import take_snapshot

    take_snapshot("data/harbour/3.9.2", "classic").save(tmp_path / "state")
    (file,) = (tmp_path / "state").glob("9.*.log")
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(kg.InvalidLog, match="take a new one"):
        kgs.keep("data/harbour/3.9.2", tmp_path / "state", "classic", session=session)
