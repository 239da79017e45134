"""Spark: the package's tables and groups, computed on many cores or machines.

`session()` returns the Spark session that exists, or starts a local session without log output. `register(session)`
adds the data source `consumer_offsets` to a session. `load(path)` returns the tables of a log as DataFrames. `keep`
updates a snapshot of a growing topic.

A group is stored in one partition of the topic, so each task reads whole log partitions. A task reads their segments in
order with the package's own loader. The answer of a task is final, so Spark sends no rows between tasks. Spark sends
paths to the tasks, not bytes, so every executor must see the files. PySpark is imported when one of these functions is
called.
"""

from kafkagroups.spark.keeping import keep
from kafkagroups.spark.session import register, session
from kafkagroups.spark.tables import Tables, load, load_groups

__all__ = ["Tables", "keep", "load", "load_groups", "register", "session"]
