"""The ways on Spark: the package's data source, a Python UDF, and Spark SQL.

All end in Spark's noop sink. The live offsets are counted once, before anything is timed. The same job runs directly
before the timed one. The Python UDF has no job before, because it takes so long that the difference does not show.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.topics import Topic
from benchmarks.ways import Missing, Timed

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MASTER = "local[2]"


@contextmanager
def run_on_spark(
    make_frame: Callable[[Any, Topic], Any], topic: Topic, warm: bool = True
) -> Iterator[tuple[Callable, Callable]]:
    from kafkagroups import spark as kgs
    from kafkagroups.spark.java import NoJava

    try:
        session = kgs.session(MASTER, memory="4g")
    except NoJava as error:
        raise Missing(str(error)) from None
    kgs.register(session)
    live = make_frame(session, topic).count()

    def run_job() -> float:
        begin = time.perf_counter()
        make_frame(session, topic).write.format("noop").mode("overwrite").save()
        return time.perf_counter() - begin

    def load() -> Timed:
        if warm:  # Spark ends Python workers after an idle minute.
            run_job()
        return Timed(run_job(), live)

    try:
        for _ in range(2 * warm):
            run_job()
        yield load, lambda timed: timed.live
    finally:
        session.stop()


def package(topic: Topic):
    return run_on_spark(
        lambda session, topic: (
            session.read.format("consumer_offsets").option("table", "offsets").load(str(topic.folder))
        ),
        topic,
    )


def udf(topic: Topic):
    return run_on_spark(decode_with_python, topic, warm=False)


def sql(topic: Topic):
    return run_on_spark(decode_with_sql, topic)


def read_offset_rows(session: SparkSession, topic: Topic) -> DataFrame:
    return session.read.parquet(str(topic.rows)).where("substring(key, 1, 2) <= X'0001'")


def decode_with_python(session: SparkSession, topic: Topic) -> DataFrame:
    """Decode every record with a Python function, in Arrow batches; then keep each key's newest value."""
    from pyspark.sql import functions as f

    from benchmarks.ways.decoding import decode_offset_key, decode_offset_value

    @f.udf("struct<group: string, topic: string, partition: int>", useArrow=True)
    def decode_key(key: bytes) -> tuple:
        return decode_offset_key(key)

    @f.udf("struct<committed: long, leader_epoch: int, metadata: string, time: long>", useArrow=True)
    def decode_value(value: bytes | None) -> tuple | None:
        if value is None:
            return None
        found = decode_offset_value(value)
        return found if value[1] == 3 else (found[0], -1, *found[1:3])

    decoded = read_offset_rows(session, topic).select(
        "offset", decode_key("key").alias("name"), decode_value("value").alias("value")
    )
    newest = decoded.groupBy("name").agg(f.max_by("value", "offset").alias("value"))
    return newest.where("value is not null").select("name.*", "value.*")


def decode_with_sql(session: SparkSession, topic: Topic) -> DataFrame:
    """Find the newest record of each raw key with a join, and decode these records with Spark's own functions."""
    from pyspark.sql import functions as f

    rows = read_offset_rows(session, topic)
    newest = rows.groupBy("key").agg(f.max("offset").alias("offset"))
    last = rows.join(newest, ["key", "offset"]).where("value is not null")
    group, after_group = read_string(f.col("key"), f.lit(3))
    topic_name, after_topic = read_string(f.col("key"), after_group)
    value = f.col("value")
    with_epoch = read_number(value, f.lit(1), 2) == 3
    metadata, after = read_string(value, f.when(with_epoch, 15).otherwise(11))
    return last.select(
        group.alias("group"),
        topic_name.alias("topic"),
        read_number(f.col("key"), after_topic, 4).alias("partition"),
        read_number(value, f.lit(3), 8).alias("committed"),
        f.when(with_epoch, read_number(value, f.lit(11), 4)).alias("leader_epoch"),
        metadata.alias("metadata"),
        read_number(value, after, 8).alias("time"),
    )


def read_number(data: Column, at: Column, size: int) -> Column:
    """Return a big-endian number that is not negative. Positions begin at 1."""
    from pyspark.sql import functions as f

    return f.conv(f.hex(f.substring(data, at, f.lit(size))), 16, 10).cast("long")


def read_string(data: Column, at: Column) -> tuple[Column, Column]:
    """Return a string that follows its length of two bytes, and the position after it."""
    from pyspark.sql import functions as f

    size = read_number(data, at, 2)
    return f.decode(f.substring(data, at + 2, size), "UTF-8"), at + 2 + size
