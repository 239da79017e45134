"""Spark imports every top-level module whose name begins with `pyspark_`, and registers its `DefaultSource` by name.

So ``spark.read.format("consumer_offsets")`` works in each session of a machine on which this package is installed.
Source: pyspark.sql.worker.lookup_data_sources (Spark 4.3).
"""

from kafkagroups.spark.source import ConsumerOffsets as DefaultSource

__all__ = ["DefaultSource"]
