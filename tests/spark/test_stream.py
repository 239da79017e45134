"""A stream of a growing folder reads every whole batch once, even if it is stopped or restarted."""

import json
import os
import pickle
import random
import shutil

import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import kafkagroups as kg
from kafkagroups import spark as kgs
from kafkagroups.loading.columns import arrow_schema
from kafkagroups.log.batches import FoundBatch
from kafkagroups.log.folders import open_logs
from kafkagroups.spark.options import BATCHES
from kafkagroups.spark.source import ConsumerOffsets
from tests.captured import LONG
from tests.handmade import segment_name
from tests.spark.growing import Growing

SCHEMA = from_arrow_schema(arrow_schema(BATCHES))
DATA = "data/harbour/3.9.2"


def new_stream(folder, **options):
    """Return the reader of a stream, as Spark creates it at a start and again in each task."""
    source = ConsumerOffsets({"path": str(folder), "table": "batches", **options})
    return source.streamReader(SCHEMA)


def asked(stream, start):
    """Return the latest offset after a round trip through JSON, as in Spark's log."""
    return json.loads(json.dumps(stream.latestOffset(start, None)))


def read(stream, start, end, folder):
    """Return the rows between two offsets, read by tasks that were pickled."""
    rows = []
    for part in pickle.loads(pickle.dumps(stream.partitions(start, end))):
        for batch in new_stream(folder).read(part):
            rows += [tuple(row.values()) for row in batch.to_pylist()]
    return rows


SEEDS = [pytest.param(seed, marks=pytest.mark.slow if seed >= 10 else ()) for seed in range(400 if LONG else 60)]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_and_nothing_doubled(seed, tmp_path):
    """The folder grows by any number of bytes, and the query restarts anywhere, even after it has planned."""
    growing = Growing(tmp_path, seed)
    rnd = random.Random(seed)
    stream = new_stream(tmp_path)
    start = {}
    seen = []
    going = True
    while going or (end := asked(stream, start)) != start:
        going = growing.grow(rnd.choice((30, 300, 5000)))
        if rnd.random() < 0.2:
            stream = new_stream(tmp_path)
        end = asked(stream, start)
        assert all(end[partition] >= offset for partition, offset in start.items())
        if end == start:
            continue
        first = read(stream, start, end, tmp_path)
        if rnd.random() < 0.3:  # killed before it was done: the same offsets are requested again
            for _ in range(rnd.randrange(3)):
                growing.grow()
            stream = new_stream(tmp_path)
            again = read(stream, start, end, tmp_path)  # perhaps in other tasks: partitions have no order among them
            assert sorted(again, key=lambda row: row[0]) == sorted(first, key=lambda row: row[0])
        seen += first
        stream.commit(end)
        start = end
    assert sorted(seen) == sorted(growing.batches)
    by_partition = {row[0] for row in seen}
    for partition in by_partition:
        mine = [row for row in seen if row[0] == partition]
        assert mine == sorted(mine) and start[str(partition)] == mine[-1][2]


def whole_log(folder, partition=9):
    """Copy a partition of the story to a separate folder; return its segment, its bytes and its batches."""
    (log,) = open_logs(f"{DATA}/__consumer_offsets-{partition}")
    place = folder / f"__consumer_offsets-{partition}"
    place.mkdir()
    with open(log.segments[0], "rb") as file:
        return place / os.path.basename(log.segments[0]), file.read(), list(log)


def test_only_what_is_new_is_read(tmp_path, monkeypatch):
    """A running query does not read bytes again; a restarted one reads their headers again."""
    path, data, batches = whole_log(tmp_path)
    looked_at = []
    parse = FoundBatch.parse
    monkeypatch.setattr(FoundBatch, "parse", lambda found: looked_at.append(found) or parse(found))
    stream = new_stream(tmp_path)
    start = {}
    for count, batch in enumerate(batches, 1):
        path.write_bytes(data[: batch.position + batch.size])
        looked_at.clear()
        start = asked(stream, start)
        assert start == {"9": batch.next_offset} and len(looked_at) == 1
        assert asked(stream, start) == start and len(looked_at) == 1
        assert asked(new_stream(tmp_path), start) == start and len(looked_at) == 1, count


def test_a_batch_that_may_be_half_written_waits(tmp_path):
    """A damaged last batch may be half written. The stream waits for it, and a task never reads past it."""
    path, data, batches = whole_log(tmp_path)
    third = batches[2]
    damaged = bytearray(data[: third.position + third.size])
    damaged[-2] ^= 1
    path.write_bytes(damaged)
    late = path.with_name(segment_name(batches[-1].next_offset))
    late.write_bytes(b"")
    stream = new_stream(tmp_path)
    end = asked(stream, {})
    assert end == {"9": third.base_offset} == asked(new_stream(tmp_path), end)
    path.write_bytes(data)
    assert asked(stream, end) == {"9": batches[-1].next_offset}
    rows = read(stream, end, asked(stream, end), tmp_path)
    assert [row[1] for row in rows] == [batch.base_offset for batch in batches[2:]]
    path.write_bytes(damaged)
    with pytest.raises(kg.InvalidLog, match="checksum") as caught:
        read(stream, {}, {"9": batches[-1].next_offset}, tmp_path)
    assert (caught.value.file, caught.value.position) == (str(path), third.position)


def test_a_segment_that_the_cleaner_replaced_is_found_again(tmp_path):
    """A position belongs to one file. In another file, the stream searches for the Kafka offset."""
    path, data, batches = whole_log(tmp_path)
    half = batches[len(batches) // 2]
    path.write_bytes(data[: half.position])
    stream = new_stream(tmp_path)
    start = asked(stream, {})
    cleaned = path.with_suffix(".cleaned")
    cleaned.write_bytes(data[batches[2].position :])
    os.replace(cleaned, path)
    rows = read(stream, start, asked(stream, start), tmp_path)
    assert [row[1] for row in rows] == [batch.base_offset for batch in batches if batch.base_offset >= half.base_offset]
    merged = path.with_name(segment_name(0))
    assert merged == path and read(stream, start, start, tmp_path) == []


def test_a_query_that_ends_with_what_is_there_sees_no_later_bytes(tmp_path):
    """With the trigger AvailableNow, the next query reads what is written after the start."""
    path, data, batches = whole_log(tmp_path)
    path.write_bytes(data[: batches[2].position + 10])
    stream = new_stream(tmp_path)
    stream.prepareForTriggerAvailableNow()
    path.write_bytes(data)
    shutil.copytree(f"{DATA}/__consumer_offsets-12", tmp_path / "__consumer_offsets-12")
    end = asked(stream, {})
    assert end == {"9": batches[2].base_offset} == asked(stream, end)
    assert set(asked(new_stream(tmp_path), end)) == {"9", "12"}


def test_the_mistakes_of_a_stream_are_named(tmp_path):
    """Each message names the wrong table, the remote path, the missing folder, or the deleted or repeated partition."""
    with pytest.raises(kg.UsageError, match="a stream has table records or batches, not offsets"):
        ConsumerOffsets({"path": DATA, "table": "offsets"}).streamReader(SCHEMA.__class__())
    with pytest.raises(kg.UsageError, match="only streams have table batches"):
        ConsumerOffsets({"path": DATA, "table": "batches"}).reader(SCHEMA)
    with pytest.raises(kg.UsageError, match="files of this machine"):
        new_stream("s3://bucket/log")
    with pytest.raises(kg.UsageError, match="no such file or folder"):
        new_stream(tmp_path / "no").latestOffset({}, None)
    assert new_stream(tmp_path).latestOffset({}, None) == {}
    with pytest.raises(kg.UsageError, match="partition 9 was deleted; the query needs its offsets 3 to 5"):
        new_stream(tmp_path).partitions({"9": 3}, {"9": 5})
    twice = json.dumps([DATA, f"{DATA}/__consumer_offsets-9"])
    with pytest.raises(kg.UsageError, match="partition 9 is in two folders"):
        ConsumerOffsets({"paths": twice, "table": "batches"}).streamReader(SCHEMA).latestOffset({}, None)


class Stopped(Exception):
    """What makes a query fail."""


@pytest.mark.thorough
@pytest.mark.java
def test_a_query_over_a_growing_folder(session, tmp_path):
    """foreachBatch receives each batch once: while the folder grows, after a failure, and after restarts."""
    growing = Growing(tmp_path / "log", seed=8, partitions=4)
    (tmp_path / "log").mkdir()
    kgs.register(session)
    epochs = {}
    tried = {}

    def take(frame, epoch):
        rows = sorted((*row[:3], bytes(row[3])) for row in frame.collect())
        if epoch in tried:  # the same epoch again, after more was written
            assert rows == tried[epoch] and epoch not in epochs
        tried[epoch] = rows
        if fail and epoch == fail.pop():
            raise Stopped
        epochs[epoch] = rows

    def query(**trigger):
        stream = session.readStream.format("consumer_offsets").option("table", "batches").load(str(tmp_path / "log"))
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        return (writer.trigger(**trigger) if trigger else writer).start()

    fail = []
    live = query(processingTime="0 seconds")
    for _ in range(4):
        growing.grow()
        live.processAllAvailable()
    live.stop()
    for _ in range(3):
        growing.grow()
        growing.grow()
        fail = [max(epochs, default=-1) + 1]
        with pytest.raises(Exception, match="Stopped"):
            query(availableNow=True).awaitTermination()
        growing.grow()
        query(availableNow=True).awaitTermination()
    growing.finish()
    query(availableNow=True).awaitTermination()
    seen = [row for rows in epochs.values() for row in rows]
    assert sorted(seen) == sorted(growing.batches) and len(epochs) > 4


@pytest.mark.thorough
@pytest.mark.java
def test_records_are_streamed_as_they_are_read(session, tmp_path):
    """Table records of a stream equals table records of a batch read."""
    kgs.register(session)
    source = {"table": "records", "coordinator": "classic"}
    stream = session.readStream.format("consumer_offsets").options(**source).load(DATA)
    query = stream.writeStream.format("memory").queryName("streamed").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    wanted = session.read.format("consumer_offsets").options(**source).load(DATA)
    assert session.table("streamed").exceptAll(wanted).count() == 0
    assert session.table("streamed").count() == wanted.count() > 0
