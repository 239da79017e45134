"""Rows of the topic in a DataFrame give what its segments give: a captured broker's log, read as a consumer reads it.

The rows of a log are those of a consumer with isolation.level=read_committed: no markers, no aborted transactions.
"""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups import spark as kgs
from tests.captured import captured
from tests.loading.test_topic_partitions import widened
from tests.spark.tables import collected

__all__ = ["widened"]
pytestmark = pytest.mark.java

COMMIT = 1
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
    ]
)
KEY = ("group", "topic", "topic_partition")


def read_committed(log):
    """Return the records that a read_committed consumer sees; None if a transaction is open."""
    marker_of = {}
    kept = []
    for batch in reversed(list(log)):
        if batch.is_control:
            for record in batch.records:
                marker_of[batch.producer_id] = record.key[3]
        elif not batch.is_transactional or marker_of.get(batch.producer_id) == COMMIT:
            kept.append(batch)
        elif batch.producer_id not in marker_of:
            return None
    return [record for batch in reversed(kept) for record in batch.records]


def rename(key, name):
    """Return a key whose group id begins with `name`, so that no group is in two logs."""
    try:
        row = kg.to_json(kg.decode(key, None))
    except kg.InvalidRecord:
        return key
    data = row["key"].get("data", {})
    for field in {"group", "groupId"} & data.keys():
        data[field] = name + data[field]
    return kg.encode(kg.from_json(row))[0]


def write_rows(path, records_by_partition):
    rows = [
        (record.key, record.value, partition, record.offset, record.timestamp)
        for partition, records in records_by_partition.items()
        for record in records
    ]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
    pq.write_table(pa.Table.from_arrays(columns, schema=SCHEMA), path)


@pytest.fixture(scope="module")
def logs():
    """By number: the folder of every captured log without damage and without an open transaction, and its records."""
    found = {}
    for number, folder in enumerate(sorted({file.parent for file in (captured("runs") / "runs").rglob("*.log")})):
        log = kg.open_log(folder)
        records = read_committed(log)
        if records and log.damage is None:
            found[number] = (folder, [replace(each, key=rename(each.key, f"{number}/")) for each in records])
    return found


@pytest.fixture(scope="module")
def rows(session, logs, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    write_rows(path, {number: records for number, (_, records) in logs.items()})
    return session.read.parquet(str(path))


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_rows_of_every_captured_log_give_the_answers_of_its_segments(rows, logs, coordinator):
    """Except the keys that `uncertain` names, whose answer depends on where a marker stands."""
    tables = kgs.load(rows, coordinator)
    assert collected(tables.pending) == []
    uncertain = {tuple(row[name] for name in KEY) for row in collected(tables.uncertain)}
    assert bool(uncertain) == (coordinator == "classic")
    offsets = {tuple(row[name] for name in KEY): row for row in collected(tables.offsets)}
    failed = {row["partition"] for row in collected(tables.partitions) if row["error"]}
    if coordinator == "new":
        check_groups_and_members(tables, logs)
    wanted = {}
    for number, (folder, _) in logs.items():
        groups = kg.load(folder, coordinator)
        (partition,) = groups.partitions.values()
        assert (partition.error is not None) == (number in failed)
        for group_id, group in groups.items():
            for place, offset in group.offsets.items():
                wanted[f"{number}/{group_id}", place.topic, place.partition] = (offset.offset, offset.record_offset)
    shown = {key: (row["committed_offset"], row["record_offset"]) for key, row in offsets.items()}
    for key in uncertain:
        shown.pop(key, None)
        wanted.pop(key, None)
    assert shown == wanted


def check_groups_and_members(tables, logs):
    """Compare them with those of the segments, but a group that only an aborted transaction mentions can be missing."""
    states = {row["group"]: row["state"] for row in collected(tables.groups)}
    members = {(row["group"], row["member_id"]) for row in collected(tables.members)}
    groups = {
        f"{number}/{name}": group for number, (folder, _) in logs.items() for name, group in kg.load(folder).items()
    }
    assert states == {name: group.state.value for name, group in groups.items() if name in states or group.offsets}
    assert members == {(name, member_id) for name, group in groups.items() for member_id in group.members}


def test_decode_adds_what_a_record_says(rows, session):
    """The columns of the table records, in the DataFrame and in SQL."""
    frame = kgs.decode(rows.withColumn("topic", rows.key))
    assert frame.columns[-8:] == ["type", "name", "group", "topic", "topic_partition", "value_version", "json", "error"]
    wanted = collected(frame.where("type = 1 and value is not null").orderBy("partition", "offset").limit(3))
    assert all('"OffsetCommit"' in row["json"] or '"offset"' in row["json"] for row in wanted)
    kgs.register(session)
    rows.createOrReplaceTempView("kafka_rows")
    decoded = session.sql("SELECT partition, offset, consumer_offsets_decode(key, value) AS d FROM kafka_rows")
    in_sql = {(row.partition, row.offset): (row.d.group, row.d.json) for row in decoded.collect()}
    assert all(in_sql[row["partition"], row["offset"]] == (row["group"], row["json"]) for row in wanted)


def test_sql_loads_a_table(rows, session, logs):
    """`consumer_offsets_load` gives the table offsets of the new coordinator."""
    kgs.register(session)
    numbers = sorted(logs)[-3:]
    some = rows.where(rows.partition.isin(numbers))
    some.union(some).createOrReplaceTempView("kafka_rows")
    loaded = session.sql("SELECT * FROM consumer_offsets_load(TABLE(kafka_rows))")
    found = {(row["partition"], *(row[name] for name in KEY)): row["committed_offset"] for row in collected(loaded)}
    assert found == {
        (number, f"{number}/{group_id}", place.topic, place.partition): offset.offset
        for number in numbers
        for group_id, group in kg.load(logs[number][0]).items()
        for place, offset in group.offsets.items()
    }


def test_rows_that_a_sink_wrote_twice_count_once_and_rows_of_two_topics_are_refused(rows, logs):
    """A sink delivers at least once; one offset of a partition has one record."""
    from pyspark.sql import functions as F

    number = max(logs)
    some = rows.where(f"partition = {number}")
    assert collected(kgs.load(some.union(some)).offsets) == collected(kgs.load(some).offsets)
    other = some.withColumn("value", F.lit(b"x"))
    with pytest.raises(Exception, match="two different records with offset"):
        kgs.load(some.union(other)).offsets.collect()
    with pytest.raises(kg.UsageError, match="no column offset"):
        kgs.load(some.drop("offset"))
    with pytest.raises(kg.UsageError, match="column key of the rows has the type string"):
        kgs.load(some.withColumn("key", F.lit("x")))
    with pytest.raises(kg.UsageError, match="klassic"):
        kgs.load(some, "klassic")
    with pytest.raises(kg.UsageError, match="expected a path or a DataFrame"):
        kgs.load(None)


def test_stats_and_explain_of_rows(rows, logs):
    """They count the same records, and tell the same history, as of the segments of a log without transactions."""
    number, (folder, records) = max(logs.items())
    some = rows.where(f"partition = {number}")
    assert sum(row.records for row in kgs.stats(some).rows.values()) == len(records)
    for group_id in sorted(kg.load(folder))[:3]:
        found = kgs.explain(some, f"{number}/{group_id}")
        wanted = kg.explain(folder, group_id)
        assert [(each.offset, each.fate) for each in found.history] == [
            (each.offset, each.fate) for each in wanted.history
        ]
    with pytest.raises(kg.UsageError, match="no row is a record of group 'nobody'"):
        kgs.explain(some, "nobody")
    with pytest.raises(kg.UsageError, match="rows have no place to stop at"):
        kgs.explain(some, "nobody", until=1)


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_a_group_in_two_partitions_is_loaded_as_one_broker_does(session, widened, tmp_path, coordinator):
    """The classic coordinator has one cache; with the partition count, the new one answers from the home partition."""
    path, moved, _ = widened
    folders = sorted(path.iterdir())
    write_rows(tmp_path / "rows", {kg.open_log(each).partition: read_committed(kg.open_log(each)) for each in folders})
    rows = session.read.parquet(str(tmp_path / "rows"))
    found = kgs.load(rows, coordinator, partitions=5)
    wanted = kgs.load(path, coordinator, partitions=5, session=session)
    stories = [kgs.explain(each, moved, partitions=5, coordinator=coordinator) for each in (rows, path)]
    assert stories[0].answer == stories[1].answer
    assert collected(found.offsets) == collected(wanted.offsets)


def test_a_stream_of_rows_has_the_current_offsets(session, logs, tmp_path):
    """After the last micro-batch, the newest row of each key is what a load of all rows answers."""
    number, (_, records) = max(logs.items(), key=lambda item: len(item[1][1]))
    records = records[:300]
    (tmp_path / "rows").mkdir()
    size = len(records) // 2 + 1
    for start in range(0, len(records), size):
        write_rows(tmp_path / "rows" / f"{start:05}.parquet", {number: records[start : start + size]})
    static = session.read.parquet(str(tmp_path / "rows"))
    stream = session.readStream.schema(static.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "rows"))
    offsets = kgs.load(stream).offsets
    query = offsets.writeStream.queryName("current").format("memory").outputMode("update")
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    newest = {}
    for row in session.table("current").collect():
        key = tuple(row[name] for name in KEY)
        newest[key] = max(newest.get(key, (-1,)), (row["record_offset"], row["deleted"], row["committed_offset"]))
    shown = {key: offset for key, (_, is_deleted, offset) in newest.items() if not is_deleted}
    wanted = {tuple(row[name] for name in KEY): row["committed_offset"] for row in collected(kgs.load(static).offsets)}
    assert shown == wanted
    with pytest.raises(kg.UsageError, match="a stream of rows has the tables offsets and records"):
        _ = kgs.load(stream).groups
