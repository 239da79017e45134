"""Archives the Java classes that Spark loads at its start: `python -m tests.spark.archive_classes ARCHIVE`.

The tests start Spark about thirty times. An archive of the classes (a CDS archive of the JVM) halves the CPU time of a
start. Without Java, no archive is written, and neither on a machine that is too slow for it: the tests do without.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from kafkagroups import spark as kgs, synth
from kafkagroups.spark.session import NoJava, find_java

LONGEST_DUMP_SECONDS = 120


def archive_classes(archive: str) -> None:
    """Run one load on Spark. Its JVM writes the archive when it ends; Spark's script starts it in its own place."""
    options = shlex.split(os.environ.get("SPARK_SUBMIT_OPTS", ""))
    options = [option for option in options if not option.startswith("-XX:SharedArchiveFile")]
    os.environ["SPARK_SUBMIT_OPTS"] = shlex.join([*options, f"-XX:ArchiveClassesAtExit={archive}"])
    session = kgs.session("local[1]", memory="1g")
    with tempfile.TemporaryDirectory() as folder:
        synth.write(folder, records=100, partitions=2, groups=4)
        kgs.load(folder, session=session, partitions=2, engine="python").offsets.orderBy("group").collect()
    jvm = session.sparkContext._gateway.proc
    session.stop()
    jvm.stdin.close()  # The JVM ends when this pipe closes.
    try:
        jvm.wait(LONGEST_DUMP_SECONDS)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()
        Path(archive).unlink(missing_ok=True)
        print(f"The JVM did not end within {LONGEST_DUMP_SECONDS} s: no archive of classes, so Spark starts slower")


if __name__ == "__main__":
    try:
        find_java()
    except NoJava:
        sys.exit()
    archive_classes(sys.argv[1])
