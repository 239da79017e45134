"""Every way to load the topic that is measured: what it is, where it is written, and where it takes part.

A way is a context manager over a topic (topics.Topic): it gives (load, count). `load()` is what is timed; `count` of
its result, not timed, is how many live offsets it found. A way that times itself, because what it does is more than
what is measured, gives a Timed instead. What is missing on this machine it says by raising Missing.

All of them read uncompressed logs of magic 2 without transactions: only the package and the brokers would be right on
others, and the topic has none.
"""

from __future__ import annotations

from dataclasses import dataclass


class Missing(Exception):
    """What this machine lacks for a way."""


@dataclass(frozen=True)
class Timed:
    """A load that was timed by whoever did it: seconds and live offsets (None: it can't tell, so what it said)."""

    seconds: float
    live: int


@dataclass(frozen=True)
class Way:
    """A way: what the table calls it, what one must know of its figure, `module:function`, and where it takes part.

    `layouts`: how many partitions the topic may have. `most`: up to how many records it is run; `rows`: it starts from
    key and value rows in Parquet.
    """

    title: str
    note: str
    function: str
    layouts: tuple[int, ...] = (50,)
    most: int = 10_000_000
    rows: bool = False


BASE = "package-1"
"""What the others are compared with."""

WAYS = {
    BASE: Way(
        "kafkagroups, 1 thread",
        "compiled engine; a group's offsets become Python objects when looked at",
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
    "package-python": Way("kafkagroups, readable loader", "the one to read", "package:readable"),
    "naive": Way("Python, struct and dict", "every record decoded, CRC by the crc32c library", "python:naive"),
    "kafka-python": Way(
        "kafka-python 3.0", "its MemoryRecords, CRC by the crc32c library, then as above", "python:kafka_python"
    ),
    "aiokafka": Way(
        "aiokafka 0.14", "its C extension; last writer wins on raw keys, survivors decoded", "python:aiokafka"
    ),
    "numpy": Way(
        "NumPy", "record r of all batches at once; keys told apart by a hash of 64 bits", "arrays:last_writers"
    ),
    "udf": Way(
        "Spark, Arrow Python UDF, max_by",
        "warm; from key and value rows in Parquet: no log is read, no CRC",
        "spark:udf",
        rows=True,
    ),
    "sql": Way(
        "Spark SQL, max(offset) joined back",
        "warm; from key and value rows in Parquet: no log is read, no CRC",
        "spark:sql",
        rows=True,
    ),
    "kafka-classes": Way(
        "Kafka 3.9.2's classes, Java 17",
        "warm, one thread, the classic loader's rule around them, no CRC",
        "kafka:classes",
        layouts=(50, 1),
    ),
    "broker-3.9.2": Way(
        "broker 3.9.2, classic coordinator",
        "“Finished loading” of its log, in a new process: its Java is cold",
        "kafka:broker_3",
        layouts=(1,),
    ),
    "broker-4.3.1": Way(
        "broker 4.3.1, new coordinator", "the same", "kafka:broker_4", layouts=(1,)
    ),
    "dump-log": Way(
        "kafka-dump-log 4.3.1",
        "whole process with --offsets-decoder --print-data-log on the first segment; the time beyond that of a log of "
        "one batch is extrapolated by records; it loads nothing: its records are counted",
        "kafka:dump_log",
        layouts=(1,),
    ),
}  # fmt: skip
