"""The list of all measured ways to load a topic: their titles, their functions, and the topics that they load.

A way is a context manager over a topic (topics.Topic) that returns (load, count). `load()` is timed. `count(result)` is
not timed and returns the number of live offsets that the load found. A load that does more than what is measured times
itself and returns a Timed. A way raises Missing if this machine lacks something that it needs.

All topics are uncompressed logs of magic 2 without transactions. On other logs, only the package and the brokers would
be right.
"""

from __future__ import annotations

from dataclasses import dataclass


class Missing(Exception):
    """This machine lacks something that a way needs."""


@dataclass(frozen=True)
class Timed:
    """The result of a load that timed itself: seconds and live offsets."""

    seconds: float
    live: int


@dataclass(frozen=True)
class Way:
    """A way: its title in the tables, a note about its times, its `module:function`, and the topics that it loads.

    `layouts` are the partition counts of its topics. It loads topics of up to `most` records. With `rows`, it starts
    from key and value rows in Parquet.
    """

    title: str
    note: str
    function: str
    layouts: tuple[int, ...] = (50,)
    most: int = 10_000_000
    rows: bool = False


BASE = "package-1"
"""The way with which the others are compared."""

WAYS = {
    BASE: Way(
        "kafkagroups, 1 thread",
        "compiled engine; a group's offsets become Python objects when you use them",
        "package:one_thread",
        layouts=(50, 1),
        most=1_000_000_000,
    ),
    "package-2": Way("kafkagroups, 2 threads", "the same", "package:two_threads", most=1_000_000_000),
    "package-arrow": Way(
        "kafkagroups, 1 thread, to Arrow",
        "all columns of all live offsets",
        "package:arrow",
        layouts=(50, 1),
        most=1_000_000_000,
    ),
    "package-spark": Way(
        "kafkagroups, Spark local[2]",
        "warm session; all columns of all live offsets, into Spark's noop sink",
        "spark:package",
        most=1_000_000_000,
    ),
    "package-python": Way("kafkagroups, readable loader", "the readable engine, in Python", "package:readable"),
    "naive": Way("Python, struct and dict", "decodes every record; checksums by the crc32c library", "python:naive"),
    "kafka-python": Way(
        "kafka-python 3.0", "its MemoryRecords; checksums by the crc32c library; then as above", "python:kafka_python"
    ),
    "aiokafka": Way(
        "aiokafka 0.14", "its C extension; keeps the last value of each raw key, then decodes these", "python:aiokafka"
    ),
    "numpy": Way(
        "NumPy", "reads record r of all batches together; distinguishes keys by a 64-bit hash", "arrays:last_writers"
    ),
    "udf": Way(
        "Spark, Arrow Python UDF, max_by",
        "warm session; starts from key and value rows in Parquet: reads no log, checks no checksum",
        "spark:udf",
        rows=True,
    ),
    "sql": Way(
        "Spark SQL, max(offset) joined back",
        "warm session; starts from key and value rows in Parquet: reads no log, checks no checksum",
        "spark:sql",
        rows=True,
    ),
    "kafka-classes": Way(
        "Kafka 3.9.2's classes, Java 17",
        "warm, one thread, with the classic loader's rule; checks no checksum",
        "kafka:classes",
        layouts=(50, 1),
    ),
    "broker-3.9.2": Way(
        "broker 3.9.2, classic coordinator",
        "the time in “Finished loading” of its own log, in a new process with a cold JVM",
        "kafka:broker_3",
        layouts=(1,),
    ),
    "broker-4.3.1": Way("broker 4.3.1, new coordinator", "the same", "kafka:broker_4", layouts=(1,)),
    "dump-log": Way(
        "kafka-dump-log 4.3.1",
        "a whole process with --offsets-decoder --print-data-log on the first segment; the time of a log of one batch "
        "is subtracted, and the rest is extrapolated by records; it loads nothing, so its records are counted",
        "kafka:dump_log",
        layouts=(1,),
    ),
}
