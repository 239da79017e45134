"""Spark: the same tables and groups as the package's own loader, computed on many cores or machines.

`session()` returns a quiet local session, or the one that exists. `register(session)` adds the data source
`consumer_offsets` to it. `load(path)` returns the tables of a log as DataFrames. `keep` updates a snapshot of a growing
topic.

A group is stored in one partition of the topic, so one task owns whole log partitions. It reads their segments in order
with the package's own loader, and its answer is final: nothing is shuffled. Spark sends paths to the tasks, not bytes,
so every executor must see the files. PySpark is imported when one of these functions is called.
"""

from kafkagroups.spark.keeping import keep
from kafkagroups.spark.session import register, session
from kafkagroups.spark.tables import Tables, load, load_groups

__all__ = ["Tables", "keep", "load", "load_groups", "register", "session"]
