"""Spark: the package's tables and groups, computed on many cores or machines.

A group is stored in one partition of the topic, so each task loads whole partitions with the package's own engines, and
nothing is shuffled. Every executor must see the files. Damaged bytes are an error everywhere; with
`fail_on_damage=False`, a `DamagedLog` is the warning. PySpark is imported when one of these functions is called.
"""

from kafkagroups.spark.kafka_rows import RowTables, decode
from kafkagroups.spark.keeping import keep
from kafkagroups.spark.session import register, session
from kafkagroups.spark.tables import Tables, explain, load, load_groups, stats
from kafkagroups.spark.tasks import DamagedLog

__all__ = [
    "DamagedLog",
    "RowTables",
    "Tables",
    "decode",
    "explain",
    "keep",
    "load",
    "load_groups",
    "register",
    "session",
    "stats",
]
