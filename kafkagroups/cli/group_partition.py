"""The partition of a group in a folder of partitions, for `explain --until`: an offset belongs to one partition."""

from __future__ import annotations

from kafkagroups.api import explain
from kafkagroups.errors import UsageError
from kafkagroups.log.folders import open_logs
from kafkagroups.log.partitioning import partition_for
from kafkagroups.records.dialects import Dialect


def find_group_folder(
    path: str, group: str, dialect: Dialect, *, partitions: int | None, max_batch_bytes: int, engine: str
) -> str:
    """Return the path of the partition that has the group's records; `path` itself if it is one partition.

    The other parameters are those of `kafkagroups.explain`. With `partitions`, the group id decides which partition it
    is. Without it, all partitions are searched for records of the group, because the partition count is not known.

    Raises UsageError if no partition or more than one partition has records of the group.
    """
    logs = open_logs(path)
    if len(logs) == 1:
        return path
    if partitions:
        numbers = {partition_for(group, partitions)}
    else:
        story = explain(
            path,
            group,
            coordinator=dialect.coordinator,
            kafka=dialect.kafka,
            max_batch_bytes=max_batch_bytes,
            engine=engine,
        )
        numbers = {number for entry in story.history if (number := entry.partition) is not None}
    folders = [log.path for log in logs if log.partition in numbers]
    if len(folders) == 1:
        return folders[0]
    if folders:
        listed = ", ".join(map(str, sorted(numbers)))
        reason = f"partitions {listed} have records of {group}: give the folder of one of them, or --partitions"
    elif partitions:
        reason = f"{path} has no folder of partition {min(numbers)}, which stores {group}"
    else:
        reason = f"no partition in {path} has a record of {group}"
    raise UsageError(f"--until needs one partition: {reason}")
