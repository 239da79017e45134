"""On Spark: the package's data source, and the two ways that people write, from key and value rows.

All end in Spark's noop sink. The count is taken once, before anything is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.topics import Topic
from benchmarks.ways import Missing

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MASTER = "local[2]"
LONG_JOB = 10
"""Seconds after which it no longer shows whether Java had compiled all."""


@contextmanager
def on_spark(frame: Callable[[Any, Topic], Any], topic: Topic) -> Iterator[tuple[Callable, Callable]]:
    from kafkagroups import spark as kgs
    from kafkagroups.spark.java import NoJava

    try:
        session = kgs.session(MASTER, memory="4g")
    except NoJava as error:
        raise Missing(str(error)) from None
    kgs.register(session)
    start = time.monotonic()
    live = frame(session, topic).count()
    was_long = time.monotonic() - start > LONG_JOB

    def load() -> int:
        frame(session, topic).write.format("noop").mode("overwrite").save()
        return live

    try:
        for _ in range(0 if was_long else 2):
            load()
        yield load, lambda counted: counted
    finally:
        session.stop()


def package(topic: Topic):
    return on_spark(
        lambda session, topic: (
            session.read.format("consumer_offsets").option("table", "offsets").load(str(topic.folder))
        ),
        topic,
    )


def udf(topic: Topic):
    return on_spark(decoded_by_python, topic)


def sql(topic: Topic):
    return on_spark(decoded_by_sql, topic)


def offset_rows(session: SparkSession, topic: Topic) -> DataFrame:
    return session.read.parquet(str(topic.rows)).where("substring(key, 1, 2) <= X'0001'")


def decoded_by_python(session: SparkSession, topic: Topic) -> DataFrame:
    """Every record is decoded by a Python function, in Arrow batches; then the newest of each key that has a value."""
    from pyspark.sql import functions as f

    from benchmarks.ways.decoding import offset_key, offset_value

    @f.udf("struct<group: string, topic: string, partition: int>", useArrow=True)
    def decode_key(key: bytes) -> tuple:
        return offset_key(key)

    @f.udf("struct<committed: long, leader_epoch: int, metadata: string, time: long>", useArrow=True)
    def decode_value(value: bytes | None) -> tuple | None:
        if value is None:
            return None
        found = offset_value(value)
        return found if value[1] == 3 else (found[0], -1, *found[1:3])

    decoded = offset_rows(session, topic).select(
        "offset", decode_key("key").alias("name"), decode_value("value").alias("value")
    )
    newest = decoded.groupBy("name").agg(f.max_by("value", "offset").alias("value"))
    return newest.where("value is not null").select("name.*", "value.*")


def decoded_by_sql(session: SparkSession, topic: Topic) -> DataFrame:
    """The newest record offset of each raw key, joined back; what is left is decoded by Spark's own functions."""
    from pyspark.sql import functions as f

    rows = offset_rows(session, topic)
    newest = rows.groupBy("key").agg(f.max("offset").alias("offset"))
    last = rows.join(newest, ["key", "offset"]).where("value is not null")
    group, after_group = text(f.col("key"), f.lit(3))
    topic_name, after_topic = text(f.col("key"), after_group)
    value = f.col("value")
    with_epoch = number(value, f.lit(1), 2) == 3
    metadata, after = text(value, f.when(with_epoch, 15).otherwise(11))
    return last.select(
        group.alias("group"),
        topic_name.alias("topic"),
        number(f.col("key"), after_topic, 4).alias("partition"),
        number(value, f.lit(3), 8).alias("committed"),
        f.when(with_epoch, number(value, f.lit(11), 4)).alias("leader_epoch"),
        metadata.alias("metadata"),
        number(value, after, 8).alias("time"),
    )


def number(data: Column, at: Column, size: int) -> Column:
    """A big-endian number that is not negative; places count from 1."""
    from pyspark.sql import functions as f

    return f.conv(f.hex(f.substring(data, at, f.lit(size))), 16, 10).cast("long")


def text(data: Column, at: Column) -> tuple[Column, Column]:
    """A string behind its length of two bytes, and the place after it."""
    from pyspark.sql import functions as f

    size = number(data, at, 2)
    return f.decode(f.substring(data, at + 2, size), "UTF-8"), at + 2 + size
