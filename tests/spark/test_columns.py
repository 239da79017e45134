"""The tables without Java: columns, filters, tasks, options and damage, as `load_table` and the reader give them."""

import json
import shutil
import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import kafkagroups as kg
from tests.fuzz.odd_logs import mend
from tests.handmade import LogRecord, encode_batch, write_segment
from tests.spark.tables import (
    TABLES,
    ConsumerOffsets,
    arrow_schema,
    load_table,
    make_reader,
    partitions_of,
    read,
)

DATA = "data/harbour"
STORY = f"{DATA}/3.9.2"


@pytest.mark.parametrize("table", TABLES)
def test_columns_are_those_of_the_contract(table):
    """The batches have the order, types and nullability that TABLES declares, in Arrow and in Spark."""
    path = f"{STORY}/__consumer_offsets-9/00000000000000000000.log"
    with open(path, "rb") as file:
        batches = load_table([(path, file.read())], table=table, coordinator="classic", partition=9)
    found = batches.read_all()
    assert found.schema == arrow_schema(TABLES[table]) and found.schema.names[0] == "partition"
    assert found.num_rows and set(found["partition"].to_pylist()) == {9}
    found.validate(full=True)
    source = ConsumerOffsets({"table": table, "path": path})
    assert len(source.schema().split(", ")) == len(TABLES[table])


def test_columns_can_be_chosen():
    """The rows have only the requested columns, in the requested order, and can name the log and the cluster."""
    (row, *_) = read(STORY, columns="topic,group", coordinator="classic")
    assert list(row) == ["topic", "group"]
    chosen = {"columns": "path,cluster,group", "cluster": "east"}
    schema = ConsumerOffsets({"path": STORY, **chosen}).schema()
    assert schema == "path string NOT NULL, cluster string, group string NOT NULL"
    rows = read(STORY, **chosen)
    assert {row["cluster"] for row in rows} == {"east"}
    paths = {row["path"] for row in rows}
    assert len(paths) > 1 and any(path.endswith(f"{STORY}/__consumer_offsets-9") for path in paths)


def test_log_partitions_selects_tasks():
    """The option is a list of numbers and ranges."""
    for text, wanted in (("9", [9]), ("8-12,99", [8, 9, 12]), ("99", [])):
        assert partitions_of(make_reader(STORY, coordinator="classic", log_partitions=text)) == wanted


def test_groups_drops_rows_and_where_a_group_has_one_home_selects_tasks():
    """Only the new coordinator answers a group from its home partition alone; the classic one uses every partition."""
    for coordinator, count, tasks in (
        ("classic", {}, 7),
        ("classic", {"partitions": "50"}, 7),
        ("new", {}, 7),
        ("new", {"partitions": "50"}, 1),
    ):
        options = {"coordinator": coordinator, **count}
        found = read(STORY, **options, groups="billing")
        assert found == [row for row in read(STORY, **options) if row["group"] == "billing"] != []
        assert len(partitions_of(make_reader(STORY, **options, groups="billing"))) == tasks
    assert read(STORY, groups="bil*, no such") == found
    assert read(STORY, columns="committed_offset", groups="billing") == [
        {"committed_offset": row["committed_offset"]} for row in found
    ]


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_the_option_groups_loses_no_row(coordinator):
    """With any partition count, the rows are those of kafkagroups.load."""
    for partitions in (50, 60):
        for path in (STORY, f"{STORY}/__consumer_offsets-9/00000000000000000000.log"):
            groups = kg.load(path, coordinator, partitions=partitions)
            wanted = len(groups["billing"].offsets) if "billing" in groups else 0
            options = {"coordinator": coordinator, "partitions": str(partitions)}
            assert len(read(path, groups="billing", **options)) == wanted
            rows = read(path, **options)
            assert sum(row["group"] == "billing" for row in rows) == wanted
    assert len(read(STORY, partitions="60", groups="billing", table="records")) > 20


def test_tasks_hold_about_the_same_bytes(tmp_path):
    """Large partitions are distributed first, and there are never more tasks than partitions."""
    for partition, size in enumerate([70, 10, 10, 10, 10, 10]):
        write_segment(tmp_path, bytes(size), partition)
    one = make_reader(tmp_path, tasks="2")
    assert [sorted(log.partition for log in task.logs) for task in one.partitions()] == [[0], [1, 2, 3, 4, 5]]
    assert len(make_reader(tmp_path, tasks="50").partitions()) == 6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "offset"}, "no table 'offset': expected one of records, fates, offsets"),
        ({"coordinater": "new"}, "no option 'coordinater'; its options are table, coordinator"),
        ({"coordinator": "old"}, '"classic" or "new"'),
        ({"engine": "fast"}, "option engine: expected one of auto, python, compiled, found 'fast'"),
        ({"partitions": "0"}, "option partitions: expected a number above 0, found '0'"),
        ({"tasks": "many"}, "option tasks"),
        ({"columns": "x"}, "table offsets has no column 'x'"),
        ({"columns": "group,group"}, "option columns: a column is named twice in group,group"),
        ({"log_partitions": "x"}, "option log_partitions: expected a whole number"),
        ({"log_partitions": "9-8"}, "option log_partitions: 9-8 has no number"),
        ({"maxRowsPerTrigger": "0"}, "option maxRowsPerTrigger: expected a number above 0, found '0'"),
        ({"maxRowsPerTrigger": "1", "maxBytesPerTrigger": "1"}, "cannot be set together"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss: expected true or false, found 'no'"),
        ({"startingOffsets": "latest"}, "only streams have startingOffsets"),
        *(
            ({"startingOffsets": text}, "option startingOffsets: expected earliest, latest or JSON")
            for text in ("newest", "{", '{"9": -3}', '{"nine": 1}', "[1]")
        ),
        ({"table": "partitions", "groups": "billing"}, "the table partitions has no column group"),
        ({"path": f"{DATA}/nowhere"}, "nowhere: no such file"),
        ({"path": f"{DATA}/nowhere-*"}, r"nowhere-\*: no file or folder matches this pattern"),
        ({"paths": "[1"}, "option paths: expected a JSON list"),
    ],
)
def test_a_wrong_option_is_named(options, said):
    with pytest.raises(kg.UsageError, match=said):
        make_reader(**{"path": DATA, **options}).partitions()


def test_a_missing_path_and_a_wrong_schema_are_named():
    with pytest.raises(kg.UsageError, match=r"needs a path: .load"):
        ConsumerOffsets({}).schema()
    with pytest.raises(kg.UsageError, match="table records, column offset: expected type bigint, found int"):
        schema = from_arrow_schema(pa.schema([("offset", pa.int32())]))
        ConsumerOffsets({"table": "records", "path": DATA}).reader(schema)


NINE, TWELVE = (f"{STORY}/__consumer_offsets-{partition}" for partition in (9, 12))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"paths": json.dumps([NINE, TWELVE])}, [9, 12]),  # what Spark makes of a Python list
        ({"paths": f"{NINE}, {TWELVE}"}, [9, 12]),
        ({"path": f"{STORY}/__consumer_offsets-2*"}, [21, 22]),
    ],
)
def test_many_paths_are_a_list_or_a_pattern(options, wanted):
    assert partitions_of(make_reader(**options)) == wanted


def test_a_pattern_reads_the_folders_of_many_clusters_and_a_name_with_its_signs_is_a_name(tmp_path):
    """The rows are those of each cluster, with the path of its log."""
    for name in ("east-1", "east-2", "east-3", "log [1]"):
        shutil.copytree(NINE, tmp_path / name / "__consumer_offsets-9")
    wanted = len(read(NINE))
    columns = ",".join([*(column.name for column in TABLES["offsets"]), "path"])
    rows = read(tmp_path / "east-*", columns=columns)
    assert (len(rows), len({row["path"] for row in rows})) == (3 * wanted, 3)
    assert len(read(tmp_path / "log [1]")) == wanted


def test_the_names_of_options_have_no_case():
    assert read(STORY, COORDINATOR="classic", Log_Partitions="9") == read(
        STORY, coordinator="classic", log_partitions="9"
    )


def test_half_a_surrogate_pair_becomes_a_question_mark():
    """A path may contain bytes that are not UTF-8, but Arrow's strings may not."""
    found = load_table([("caf\udce9.log", b"torn")], table="partitions").read_all()
    assert found["damage"].to_pylist() == [
        "caf?.log, byte 0: the log ends here at offset 0: " + found["damage"][0].as_py().rpartition(": ")[2]
    ]


def test_batches_end_before_they_are_too_large(monkeypatch):
    """A batch has at most so many rows and about so many bytes."""
    monkeypatch.setattr("kafkagroups.loading.columns.BATCH_ROWS", 3)
    data = encode_batch([LogRecord(i, 5, b"\0\1", b"v" * 100) for i in range(8)])
    batches = list(load_table([("x", data)], table="records"))
    assert [batch.num_rows for batch in batches] == [3, 3, 2]
    monkeypatch.setattr("kafkagroups.loading.columns.BATCH_BYTES", 350)
    batches = list(load_table([("x", data)], table="records"))
    assert [batch.num_rows for batch in batches] == [3, 3, 2] or all(batch.num_rows < 3 for batch in batches)


def test_a_batch_that_cannot_be_read_is_a_row_with_its_error():
    data = bytearray(encode_batch([LogRecord(7, 5, b"k", b"v")]))
    data[57:61] = (9).to_bytes(4, "big")
    (row,) = load_table([("x", mend(data))], table="records").read_all().to_pylist()
    assert (row["offset"], row["key"], row["json"]) == (7, None, None) and "9 records" in row["error"]


def test_spark_is_not_loaded():
    """Reading columns imports pyarrow, which imports pandas, but not PySpark."""
    code = (
        "import sys, kafkagroups as kg\n"
        "from kafkagroups import spark\n"
        "assert not {'pyarrow', 'pandas', 'pyspark'} & set(sys.modules)\n"
        f"kg.record_table('{DATA}/3.9.2', 'records').read_all()\n"
        "assert 'pyarrow' in sys.modules and 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
