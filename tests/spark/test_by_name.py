"""Spark finds the data source by its name, without an import of this package, in each kind of session."""

import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import kafkagroups as kg
from tests.spark.tables import LOADED, TABLES, loaded_rows

PYTHON = Path(sys.executable)
ROOT = Path(__file__).parents[2]
OLDEST = "pyspark==4.0.0"
LOG = Path("data/harbour/3.9.2").absolute()
START = """
from pyspark.sql import SparkSession
spark = SparkSession.builder{remote}.config("spark.sql.shuffle.partitions", 4).getOrCreate()
"""
READ = """
for table in {tables!r}:
    print(table, spark.read.format("consumer_offsets").option("table", table).load({log!r}).count())

spark.sql("CREATE TEMPORARY VIEW v USING consumer_offsets OPTIONS (path '{log}')")
print("view", spark.table("v").count())
"""
QUESTIONS = """
import kafkagroups as kg
from kafkagroups import spark as kgs
assert kgs.session() is spark
groups = kgs.load_groups({log!r})
assert groups.groups == kg.load({log!r}).groups
assert kgs.load({log!r}).offsets.count() == spark.table("v").count()
assert kgs.stats({log!r}) == kg.stats({log!r})
group = sorted(groups)[0]
assert kgs.explain({log!r}, group) == kg.explain({log!r}, group)
rows = kgs.load({log!r}).records.where("type is not null").select("key", "value", "partition", "offset", "timestamp")
print("rows", kgs.load(rows).offsets.count(), kgs.decode(rows).where("type = 2").count() > 0)
kgs.register(spark)
"""
REFUSALS = """
try:
    kgs.keep({log!r}, "kept")
except kg.UsageError as error:
    print("keep:", error)
try:
    kgs.load_groups("/no/such/folder")
except kg.UsageError as error:
    print("error:", error)
"""


def program(*parts, remote=""):
    return "".join(parts).format(remote=remote, log=str(LOG), tables=[*TABLES])


def environment():
    """This Python comes first, as in an activated environment."""
    path = f"{PYTHON.parent}{os.pathsep}{os.environ['PATH']}"
    left = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    return left | {"PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}


def run(folder, command, text, **settings):
    """Run a program in another folder, so that Spark does not find the module in the working folder."""
    file = folder / "program.py"
    file.write_text(text)
    return say(folder, [*command, str(file)], "", **settings)


def say(folder, command, text, **settings):
    """Return the lines that a command prints when it is given a text as its input."""
    env = environment() | settings
    done = subprocess.run(command, input=text, capture_output=True, text=True, cwd=folder, env=env, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def counts():
    """The number of rows of each table, and of the view of the offsets, as the package gives them without Spark."""
    rows = {table: kg.record_table(LOG, table).read_all().num_rows for table in ("records", "fates")}
    groups = kg.load(LOG)
    rows |= {table: len(loaded_rows(groups, table)) for table in LOADED}
    assert rows.keys() == TABLES.keys()
    return {f"{table} {count}" for table, count in [*rows.items(), ("view", rows["offsets"])]}


@pytest.mark.cluster
def test_a_plain_session_reads_all_tables(tmp_path, counts):
    """PySpark needs the package on the machine, and nothing else."""
    assert counts <= set(run(tmp_path, [PYTHON], program(START, READ)))


@pytest.mark.cluster
def test_the_pyspark_shell_reads_all_tables(tmp_path, counts):
    """It is typed into the shell line by line: the shell has made the session."""
    shell = [PYTHON.parent / "pyspark", "--master", "local[2]"]
    lines = say(tmp_path, shell, program(READ), PYSPARK_DRIVER_PYTHON_OPTS="-i")
    assert "SparkSession available as 'spark'." in lines and counts <= set(lines)


@contextmanager
def daemon(folder, name, ready, *arguments):
    """Start a daemon of Spark on loopback, and give what its log says when it is ready."""
    command = [PYTHON.parent / "spark-class", f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1"]
    env = environment() | {"SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false"}
    folder.mkdir()
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(
            [*command, "--webui-port", "0", *arguments], env=env, cwd=folder, stdout=log, stderr=log
        )
    try:
        deadline = time.monotonic() + 120
        while not (found := re.search(ready, (folder / "log").read_text())):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.2)
        yield found
    finally:
        process.terminate()
        process.wait()


@pytest.mark.cluster
def test_spark_submit_to_a_standalone_cluster_reads_all_tables(tmp_path, counts):
    """The cluster is a master and two workers on loopback, and an executor of each has read."""
    workers = [tmp_path / "worker-1", tmp_path / "worker-2"]
    with ExitStack() as stack:
        ready = daemon(tmp_path / "master", "master.Master", r"Starting Spark master at (\S+)", "--port", "0")
        master = stack.enter_context(ready)[1]
        for folder in workers:
            arguments = ("--cores", "1", "--memory", "1g", "--work-dir", folder / "work", master)
            stack.enter_context(daemon(folder, "worker.Worker", "Successfully registered with master", *arguments))
        ready = "spark.scheduler.minRegisteredResourcesRatio=1.0"
        submit = [PYTHON.parent / "spark-submit", "--master", master, "--total-executor-cores", "2", "--conf", ready]
        assert counts <= set(run(tmp_path, submit, program(START, READ)))
    for folder in workers:
        (log,) = folder.glob("work/app-*/*/stderr")
        assert "Finished task" in log.read_text()


@pytest.mark.cluster
def test_spark_connect_reads_all_tables_and_answers_all_questions(tmp_path, counts):
    """`keep` says in one line why it does not run there."""
    lines = run(tmp_path, [PYTHON], program(START, READ, QUESTIONS, REFUSALS, remote='.remote("local[2]")'))
    assert counts <= set(lines)
    assert any(line.startswith("keep: keep runs on the driver") for line in lines)
    assert any(line.startswith("error: /no/such/folder") for line in lines)


STREAM = """
stream = spark.readStream.format("consumer_offsets").option("table", "records").load({log!r})
try:
    stream.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination()
except Exception as error:
    print("stream:", "a stream needs PySpark 4.2" in str(error))
"""


@pytest.mark.setup
@pytest.mark.cluster
def test_the_oldest_pyspark_reads_all_tables_and_answers_all_questions(tmp_path, counts):
    """It has no streams, and says so."""
    uv = [PYTHON, "-m", "uv"]
    python = tmp_path / "env" / "bin" / "python"
    subprocess.run([*uv, "venv", "--quiet", "--python", PYTHON, tmp_path / "env"], check=True)
    extra = ["-r", ROOT / "pyproject.toml", "--extra", "spark"]
    subprocess.run([*uv, "pip", "install", "--quiet", "--python", python, *extra, OLDEST], check=True)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    lines = run(tmp_path, [python], program(START, READ, QUESTIONS, STREAM), PATH=path, PYTHONPATH=str(ROOT))
    assert counts <= set(lines)
    assert "stream: True" in lines
