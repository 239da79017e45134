"""The package's verbs on Spark: the same answers, on many cores or machines.

`session()` gives a quiet local session (or the one that exists), `register(session)` teaches it the data source
`consumer_offsets`, `load(path)` gives the tables of a log as DataFrames. A group lives in one partition of the topic,
so one task owns whole log partitions, reads their segments in order with the package's own loader, and its answer is
final: nothing is shuffled. Paths travel to the tasks, not bytes: every executor must see the files.

`keep` keeps a snapshot of a growing one. PySpark is imported when one of them is called.
"""

from kafkagroups.spark.keeping import keep
from kafkagroups.spark.session import register, session
from kafkagroups.spark.tables import Tables, load, load_groups

__all__ = ["Tables", "keep", "load", "load_groups", "register", "session"]
