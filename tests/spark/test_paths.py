"""Remote logs: a captured run on a local S3 server is the same log as on disk."""

import json
import shutil
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import spark as kgs
from kafkagroups.loading.columns import TABLES
from kafkagroups.log.folders import find_logs, local_path, open_logs
from tests.captured import captured
from tests.command import main
from tests.spark.s3_server import serving
from tests.spark.tables import check_tables, in_order, load_table

RUN = sorted(captured("runs").glob("runs/4.3.1-main/*/__consumer_offsets-*"))[0].parent


@pytest.fixture(scope="module")
def bucket(tmp_path_factory):
    """Return a folder that is served as a bucket: a captured run with a broker's other files, and a torn segment."""
    folder = tmp_path_factory.mktemp("bucket")
    shutil.copytree(RUN, folder / "backups" / "broker 1")
    broker = folder / "backups" / "broker 1"
    (broker / "orders-0").mkdir()
    (broker / "orders-0" / "00000000000000000000.log").write_bytes(b"others")
    (broker / "__consumer_offsets-999").mkdir()
    (broker / "__consumer_offsets-999" / "partition.metadata").write_text("no segment")
    log = sorted(broker.glob("__consumer_offsets-*/*.log"))[0]
    (log.parent / "00000000000000000000.index").write_bytes(b"index")
    late = folder / "late" / "__consumer_offsets-7"
    late.mkdir(parents=True)
    (late / "00000000000000000042.log").write_bytes(b"torn")
    (late / "00000000000000000099.log").write_bytes(b"")
    return folder


@pytest.fixture
def store(bucket, monkeypatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with serving(bucket) as uri:
        yield uri


def test_the_layouts_are_those_of_a_folder(bucket, store):
    """A path may be a folder of partition directories, one of these, or a .log file; other files are ignored."""
    broker = bucket / "backups" / "broker 1"
    one = open_logs(broker)[0]
    for key in ("backups/broker%201", "backups/broker%201/", f"backups/broker%201/{Path(one.path).name}"):
        for there, local in zip(find_logs(store(key)), open_logs(bucket / key.replace("%20", " ")), strict=True):
            assert (there.partition, there.start_offset, there.size) == (
                local.partition,
                local.start_offset,
                local.size,
            )
            names = [f"s3://me@log/backups/broker%201/{Path(name).relative_to(broker)}" for name in local.segments]
            assert there.segments == names
            assert [bytes(there.content[name]) for name in names] == [
                Path(file).read_bytes() for file in local.segments
            ]
    (file,) = find_logs(store(f"backups/broker%201/{Path(one.segments[0]).relative_to(broker)}"))
    assert (file.partition, len(file.segments), file.size) == (one.partition, 1, one.size)


def test_the_names_that_hadoop_has_for_s3_mean_s3(bucket, store):
    """Spark's own sources take s3a://, so a path that works there works here."""
    local = open_logs(bucket / "backups" / "broker 1")
    for scheme in ("s3a", "S3N"):
        found = find_logs(store("backups/broker%201").replace("s3:", f"{scheme}:", 1))
        assert [log.size for log in found] == [log.size for log in local]
        assert bytes(found[0].content[found[0].segments[0]]) == Path(local[0].segments[0]).read_bytes()


def test_the_tables_of_a_log_elsewhere(bucket, store):
    """Every table is the same with both engines when its segments are fetched on demand."""
    for log in find_logs(store("backups/broker%201")):
        (local,) = open_logs(bucket / "backups" / "broker 1" / f"__consumer_offsets-{log.partition}")
        content = {segment: Path(segment).read_bytes() for segment in local.segments}
        for table in TABLES:
            there, compiled, wanted = (
                in_order(load_table(data, table=table, partition=log.partition, engine=engine).read_all().to_pylist())
                for data, engine in ((log.content, "python"), (log.content, "auto"), (content, "python"))
            )
            assert there == compiled == wanted


def test_a_segment_is_named_without_password_and_query(store):
    """The damage names the object, and the log's start offset comes from the object's name, as on disk."""
    (log,) = find_logs(store("late"))
    (row,) = load_table(log.content, table="partitions", partition=log.partition).read_all().to_pylist()
    assert (row["partition"], row["segments"], row["start_offset"]) == (7, 2, 42)
    assert row["damage"].startswith("s3://me@log/late/__consumer_offsets-7/00000000000000000042.log, byte 0: the log")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("backups/broker%202", "s3://me@log/backups/broker%202: no such file or folder"),
        ("backups", "backups: expected a segment or a folder __consumer_offsets-N with a segment, found none"),
        ("backups/broker%201/__consumer_offsets-999", "expected a segment or a folder"),
        ("backups/broker%201/__consumer_offsets-999/partition.metadata", "expected a .log file or a folder"),
    ],
)
def test_a_place_without_a_log_is_named(store, key, said):
    """The same mistakes as on disk give the same messages."""
    with pytest.raises(kg.UsageError) as caught:
        find_logs(store(key))
    assert said in str(caught.value) and "hidden" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("foo://bucket/log", "foo:// is an unknown file system; expected one of s3, gs, abfss, hdfs"),
        ("s3://bucket/log?colour=red", "s3:// cannot be opened: Unexpected query parameter in S3 URI: 'colour'"),
        ("s3://[/log", "s3://[/log: Invalid"),
        ("file:///no/such/log", "/no/such/log: no such file or folder"),
        ("/no/such/log", "/no/such/log: no such file or folder"),
    ],
)
def test_a_place_that_cannot_be_is_named(uri, said):
    """Unknown schemes, wrong parameters and missing files are usage errors."""
    with pytest.raises(kg.UsageError) as caught:
        find_logs(uri)
    assert str(caught.value).startswith(said)


def test_hdfs_without_its_library_says_what_it_needs(monkeypatch, tmp_path):
    """The message names libhdfs and libjvm, which are not Python packages."""
    from pyarrow.fs import FileSystem

    monkeypatch.setenv("ARROW_LIBHDFS_DIR", str(tmp_path))
    try:
        FileSystem.from_uri("hdfs://127.0.0.1:1/log")
    except OSError as error:
        if "libjvm" not in str(error) and "libhdfs" not in str(error):
            pytest.skip("this machine has libhdfs")
    with pytest.raises(kg.UsageError, match="libhdfs"):
        find_logs("hdfs://127.0.0.1:1/log")


def test_files_of_this_machine_may_be_uris():
    """A path with file:// and one without a scheme are the same place."""
    (log, *_) = find_logs(f"file://{RUN}")
    assert log.content is None and log.segments[0].startswith(str(RUN))
    assert (local_path("file:///a%20b"), local_path("C:/x"), local_path("s3://b/x")) == ("/a b", "C:/x", None)


@pytest.mark.thorough
@pytest.mark.java
def test_spark_loads_from_s3_what_it_loads_from_disk(session, bucket, store, capsys):
    """kgs.load, kgs.load_groups, kgs.stats, kgs.explain, the data source and the command all read remote logs."""
    local = str(bucket / "backups" / "broker 1")
    there = store("backups/broker%201")
    groups = check_tables(kgs.load(there, "new", engine="auto", session=session), local)
    assert kgs.load_groups(there, "new", session=session).groups == groups.groups
    assert kgs.stats(there, session=session) == kg.stats(local)
    group = next(iter(groups))
    assert kgs.explain(there, group, session=session).answer == kg.explain(local, group).answer
    answers = []
    for path, engine in ((local, "python"), (there, "spark")):
        assert main(["load", path, "--json", "--engine", engine]) == 0
        answers.append({**json.loads(capsys.readouterr().out), "path": ""})
    assert answers[0] == answers[1]


@pytest.mark.java
def test_the_command_names_a_wrong_key_or_bucket(session, store, capsys):
    """One line, exit code 2, no traceback."""
    for uri in (store("nothing"), store("backups", bucket="other"), "foo://x/y"):
        assert main(["load", uri, "--engine", "spark"]) == 2
        said = capsys.readouterr()
        assert said.out == "" and said.err.count("\n") == 1 and "hidden" not in said.err
        assert "no such file or folder" in said.err or "unknown file system" in said.err
