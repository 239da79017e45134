"""A stream of a growing folder reads every whole batch once, even if it is stopped or restarted."""

import json
import os
import pickle
import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

import kafkagroups as kg
from kafkagroups import spark as kgs
from kafkagroups.loading.columns import arrow_schema, columns_of
from kafkagroups.log.batches import FoundBatch
from kafkagroups.log.folders import open_logs
from kafkagroups.spark.options import BATCHES
from kafkagroups.spark.source import ConsumerOffsets
from tests.captured import LONG
from tests.handmade import segment_name
from tests.spark.growing import Growing
from tests.spark.tables import read as read_table

DATA = "data/harbour/3.9.2"


def new_stream(folder, table="batches", **options):
    """Return the reader of a stream, as Spark creates it at a start."""
    schema = from_arrow_schema(arrow_schema(BATCHES if table == "batches" else columns_of(table)))
    return ConsumerOffsets({"path": str(folder), "table": table, **options}).streamReader(schema)


def asked(stream, start):
    """Return the latest offset after a round trip through JSON, as in Spark's log."""
    return json.loads(json.dumps(stream.latestOffset(start, None)))


def read(stream, start, end):
    """Return the rows between two offsets, read by tasks that were pickled, as Spark does."""
    parts, reader = pickle.loads(pickle.dumps((stream.partitions(start, end), stream)))
    return [tuple(row.values()) for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


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
        first = read(stream, start, end)
        if rnd.random() < 0.3:  # killed before it was done: the same offsets are requested again
            for _ in range(rnd.randrange(3)):
                growing.grow()
            stream = new_stream(tmp_path)
            again = read(stream, start, end)  # perhaps in other tasks: partitions have no order among them
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
    rows = read(stream, end, asked(stream, end))
    assert [row[1] for row in rows] == [batch.base_offset for batch in batches[2:]]
    path.write_bytes(damaged)
    with pytest.raises(kg.InvalidLog, match="checksum") as caught:
        read(stream, {}, {"9": batches[-1].next_offset})
    assert (caught.value.file, caught.value.position) == (str(path), third.position)


@pytest.mark.parametrize(("count", "first_kept"), [(-1, 2), (None, -1)])
def test_a_segment_that_the_cleaner_replaced_is_no_lost_data(count, first_kept, tmp_path):
    """A position belongs to one file. In another file, which keeps offsets and epochs, the stream searches for it."""
    path, data, batches = whole_log(tmp_path)
    path.write_bytes(data[: batches[count].position] if count else data)
    stream = new_stream(tmp_path)
    start = asked(stream, {})
    cleaned = path.with_suffix(".cleaned")
    cleaned.write_bytes(data[batches[first_kept].position :])
    os.replace(cleaned, path)
    rows = read(stream, start, asked(stream, start))
    assert [row[1] for row in rows] == [batch.base_offset for batch in batches[count:] if count]
    assert read(stream, start, start) == []


@pytest.mark.parametrize("limit", [{}, {"maxRowsPerTrigger": "1"}])
def test_a_query_that_ends_with_what_is_there_sees_no_later_bytes(limit, tmp_path, capsys):
    """With the trigger AvailableNow, the next query reads what is written after the start.

    Spark's log names the batch that was being written then.
    """
    path, data, batches = whole_log(tmp_path)
    path.write_bytes(data[: batches[2].position + 10])
    stream = new_stream(tmp_path, **limit)
    stream.prepareForTriggerAvailableNow()
    path.write_bytes(data)
    story(tmp_path, 12)
    ends = [end for _, end in micro_batches(stream)]
    assert ends == [{"9": batch.next_offset} for batch in (batches[:2] if limit else batches[1:2])]
    assert capsys.readouterr().err.startswith(f"{path}, byte {batches[2].position}: ")
    assert set(asked(new_stream(tmp_path), ends[-1])) == {"9", "12"}


def test_the_mistakes_of_a_stream_are_named(tmp_path):
    """Each message names the wrong table, the remote path, the missing folder, or the deleted or repeated partition."""
    with pytest.raises(kg.UsageError, match="a stream has table records or batches, not offsets"):
        new_stream(DATA, "offsets")
    with pytest.raises(kg.UsageError, match="only streams have table batches"):
        ConsumerOffsets({"path": DATA, "table": "batches"}).reader(StructType())
    with pytest.raises(kg.UsageError, match="files of this machine"):
        new_stream("s3://bucket/log")
    with pytest.raises(kg.UsageError, match="no such file or folder"):
        new_stream(tmp_path / "no").latestOffset({}, None)
    assert new_stream(tmp_path).latestOffset({}, None) == {}
    with pytest.raises(kg.InvalidLog, match="the folder has disappeared; the query needs the offsets to 5"):
        new_stream(tmp_path).partitions({"9": 3}, {"9": 5})
    twice = json.dumps([DATA, f"{DATA}/__consumer_offsets-9"])
    with pytest.raises(kg.UsageError, match="partition 9 is in two folders"):
        ConsumerOffsets({"paths": twice, "table": "batches"}).streamReader(StructType()).latestOffset({}, None)


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


def offsets_of(folder, partition=9):
    """Return the next offset of each batch of a partition's log, in order."""
    (log,) = open_logs(folder / f"__consumer_offsets-{partition}")
    return [batch.next_offset for batch in log]


def micro_batches(stream, start=None, limit=None):
    """Yield (start, end) of each micro-batch until nothing is left."""
    start = start or stream.initialOffset()
    limit = limit or stream.getDefaultReadLimit()
    while (end := stream.latestOffset(start, limit)) != start:
        yield start, end
        start = end


def story(folder, *partitions):
    """Copy partitions of the story into a folder."""
    for partition in partitions:
        shutil.copytree(f"{DATA}/__consumer_offsets-{partition}", folder / f"__consumer_offsets-{partition}")
    return folder


def batches_between(folder, start, end):
    """Return the batches between two positions, from the log itself."""
    return [
        batch
        for log in open_logs(folder)
        for batch in log
        if start.get(str(log.partition), 0) <= batch.base_offset < end.get(str(log.partition), 0)
    ]


@pytest.mark.parametrize(
    ("table", "option", "limit"),
    [("batches", "maxBytesPerTrigger", limit) for limit in (1, 500, 5000)]
    + [("records", "maxRowsPerTrigger", limit) for limit in (1, 7, 60)],
)
def test_a_micro_batch_respects_its_limit(table, option, limit):
    """It has at most so many bytes or records, or one Kafka batch, and all of them together are the log, once."""
    stream = new_stream(DATA, table, **{option: str(limit)})
    found = []
    for start, end in micro_batches(stream):
        sizes = [(batch.size if table == "batches" else batch.count) for batch in batches_between(DATA, start, end)]
        assert sum(sizes) <= limit or len(sizes) == 1
        found += read(stream, start, end)
        stream.commit(end)
    whole = new_stream(DATA, table)
    assert sorted(found, key=repr) == sorted(read(whole, {}, asked(whole, {})), key=repr)


def test_every_partition_gets_a_share_of_the_limit():
    """The largest partition does not keep the others waiting."""
    sizes = {str(log.partition): log.size for log in open_logs(DATA)}
    stream = new_stream(DATA, maxBytesPerTrigger=str(sum(sizes.values()) // 2))
    _, end = next(micro_batches(stream))
    assert end.keys() == {name for name, size in sizes.items() if size}


def test_read_all_available_ignores_the_limit():
    """Spark asks for everything with some triggers, such as once; the option does not hold then."""
    stream = new_stream(DATA, maxRowsPerTrigger="1")
    assert stream.latestOffset({}, ReadAllAvailable()) == asked(new_stream(DATA), {})


def test_the_progress_shows_the_backlog():
    """The latest offset that Spark shows is the end of the log, although the limit ends the micro-batch before."""
    stream = new_stream(DATA, maxRowsPerTrigger="1")
    (_, end), *_ = micro_batches(stream)
    latest = stream.reportLatestOffset()
    assert latest == {str(log.partition): offsets_of(Path(DATA), log.partition)[-1] for log in open_logs(DATA)}
    assert sum(end.values()) < sum(latest.values())


def test_a_query_starts_at_the_latest_offset(tmp_path):
    """It reads only what is written later, and a partition that comes later from its beginning."""
    path, data, batches = whole_log(tmp_path)
    path.write_bytes(data[: batches[3].position])
    stream = new_stream(tmp_path, startingOffsets="latest")
    start = stream.initialOffset()
    assert start == {"9": batches[3].base_offset} == asked(stream, start)
    path.write_bytes(data)
    story(tmp_path, 12)
    end = asked(stream, start)
    (log,) = open_logs(tmp_path / "__consumer_offsets-12")
    found = read(stream, start, end)
    assert sorted(row[1] for row in found) == sorted(each.base_offset for each in [*batches[3:], *log])


def test_a_query_starts_at_given_offsets():
    """It has the records of the batch read from these offsets on, also from inside a Kafka batch."""
    given = {"9": 3, "12": -1, "8": -2}
    stream = new_stream(DATA, "records", startingOffsets=json.dumps(given))
    start = stream.initialOffset()
    (end_of_12,) = offsets_of(Path(DATA), 12)[-1:]
    assert start == {"9": 3, "12": end_of_12}
    found = [row[:2] for row in read(stream, start, asked(stream, start))]
    rows = [(row["partition"], row["offset"]) for row in read_table(DATA, table="records")]
    assert sorted(found) == sorted(row for row in rows if row[1] >= start.get(str(row[0]), 0))


def disappear(folder):
    shutil.rmtree(folder)


def truncate(folder):
    (log,) = open_logs(folder)
    *_, last = log
    os.truncate(last.file, last.position)


def empty(folder):
    (log,) = open_logs(folder)
    os.truncate(log.segments[0], 0)


def rewrite(folder):
    """Write other bytes for the last batch, with the next leader epoch, as after an unclean election."""
    (log,) = open_logs(folder)
    *_, last = log
    with open(last.file, "r+b") as file:
        file.seek(last.position + 15)
        file.write(b"\x63")


def replace(folder):
    """Do the same in a new file, as a copy does."""
    (log,) = open_logs(folder)
    copy = shutil.copy(log.segments[0], folder / "copy")
    rewrite(folder)
    changed = Path(log.segments[0]).read_bytes()
    Path(copy).write_bytes(changed)
    os.replace(copy, log.segments[0])


LOSSES = {
    disappear: "the folder has disappeared",
    truncate: "it was truncated",
    empty: "it was truncated",
    rewrite: "it was rewritten",
    replace: "it was rewritten",
}


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
def test_lost_data_fails_a_query_or_is_named(lose, tmp_path, capsys):
    """The error names the folder and the offset up to which the query has read.

    A restarted query knows only the offset, and names the path that it reads. With failOnDataLoss=false, Spark's log
    has a line, and what is written later is read.
    """
    folder = story(tmp_path, 9, 12) / "__consumer_offsets-9"
    (log,) = open_logs(folder)
    *_, last = log
    data = Path(last.file).read_bytes()
    strict = new_stream(tmp_path)
    stream = new_stream(tmp_path, failOnDataLoss="false")
    start = asked(stream, {})
    assert asked(strict, {}) == start
    lose(folder)
    keeps_offsets = lose in (rewrite, replace)
    for failing, place in ((strict, folder), *([] if keeps_offsets else [(new_stream(tmp_path), tmp_path)])):
        with pytest.raises(kg.InvalidLog, match=LOSSES[lose]) as caught:
            asked(failing, start)
        assert (caught.value.file, caught.value.offset) == (str(place), start["9"])
    end = asked(stream, start)
    assert LOSSES[lose] in capsys.readouterr().err
    assert stream.partitions(start, end) == []
    assert asked(stream, end) == end and capsys.readouterr().err == ""
    if not keeps_offsets:
        folder.mkdir(exist_ok=True)
        Path(last.file).write_bytes(data)
        left = {truncate: [last.base_offset]}.get(lose, [batch.base_offset for batch in log])
        assert [row[1] for row in read(stream, end, asked(stream, end))] == left


def test_a_partition_that_is_not_selected_is_not_lost(tmp_path):
    """A restart with another option log_partitions is no loss."""
    story(tmp_path, 9, 12)
    start = asked(new_stream(tmp_path), {})
    assert asked(new_stream(tmp_path, log_partitions="12"), start) == start


@pytest.mark.java
def test_spark_reads_in_limited_micro_batches(session, tmp_path):
    """With AvailableNow and a limit: several micro-batches, each row once, and the latest offset in the progress."""
    kgs.register(session)
    limit = len(read_table(DATA, table="records")) // 2
    reader = session.readStream.format("consumer_offsets").option("table", "records").option("MAXROWSPERTRIGGER", limit)
    query = reader.load(DATA).writeStream.format("memory").queryName("limited").trigger(availableNow=True)
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    progress = [each for each in query.recentProgress if each["numInputRows"]]
    assert len(progress) > 1 and max(each["numInputRows"] for each in progress) <= limit
    wanted = session.read.format("consumer_offsets").option("table", "records").load(DATA)
    assert session.table("limited").exceptAll(wanted).count() == 0
    assert session.table("limited").count() == wanted.count() > 0
    ends = {str(log.partition): offsets_of(Path(DATA), log.partition)[-1] for log in open_logs(DATA)}
    assert json.loads(progress[0]["sources"][0]["latestOffset"]) == ends
