"""Spark: the package's tables and groups, computed on many cores or machines.

- `session` returns the Spark session that exists, or starts a local session without log output.
- `register` adds the data source `consumer_offsets` to a session.
- `load` returns the tables of a log as DataFrames. The log is given by its path, or as rows of a DataFrame.
- `decode` adds to such rows what their keys and values say.
- `load_groups` returns the groups of a log, as `kafkagroups.load` does.
- `stats` returns counts of a log's records and bytes, as `kafkagroups.stats` does.
- `explain` returns the history of one group, as `kafkagroups.explain` does.
- `keep` starts a stream that updates a snapshot of a growing topic.

A group is stored in one partition of the topic. So each task loads whole partitions with the package's own
engines, and Spark sends no rows between tasks. Spark sends paths to the tasks, not bytes, so every executor must see
the files. Damaged bytes are an error everywhere, because the answer would silently lack what follows them; with
`fail_on_damage=False`, a `DamagedLog` is the warning. PySpark is imported when one of these functions is called.
"""

from kafkagroups.spark.kafka_rows import RowTables, decode
from kafkagroups.spark.keeping import keep
from kafkagroups.spark.questions import explain, stats
from kafkagroups.spark.session import register, session
from kafkagroups.spark.tables import Tables, load, load_groups
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
