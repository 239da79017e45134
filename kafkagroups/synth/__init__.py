"""Synthetic `__consumer_offsets` topics of any size, with busy and quiet groups.

A batch is the result of one request: a group commits some of its offsets, or some of its offsets expire, or the group
gets a new generation. Transactions of several groups overlap. A transaction without a marker hangs: it stays open
forever.

Simpler than Kafka: `write` follows the rules below, so the counts that it returns are exact, and the same for the
classic and the new coordinator:

- A transaction is one batch of commits. If it does not hang, it ends before the group sends another request.
- Each hanging transaction has its own producer. A group with a hanging transaction writes no more tombstones.
- Groups are never deleted. A group's members, topics and assignment are the same in all generations.
- Producer epochs are 0. There is one request per millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kafkagroups.errors import UsageError
from kafkagroups.log.folders import new_folder
from kafkagroups.log.segment_file import partition_for
from kafkagroups.synth import files, request_batches as requests
from kafkagroups.synth.request_batches import WIDTH, Settings, read_settings

__all__ = ["WIDTH", "Settings", "write"]

Progress = Callable[[int, int], None]


def write(folder: str | Path, records: int, *, progress: Progress | None = None, **settings: Any) -> dict[str, Any]:
    """Write a topic: `folder`/__consumer_offsets-N/<base offset>.log for every partition that has records.

    `records` is the number of records in all partitions together, including markers, and `settings` are the other
    fields of `Settings`. `progress` is called after about every 64 MiB.

    Returns `{"partitions": {"0": {"segments", "batches", "records", "bytes"}}, "groups", "live_offsets",
    "transactions": {"committed", "aborted", "open"}}`. `groups` counts the groups that have records, and `live_offsets`
    the offsets that a coordinator has after it has loaded the topic. Raises UsageError if a number is out of range, or
    the folder is not empty.
    """
    all_settings = read_settings({"records": records, **settings})

    def find_partition(number: int) -> int:
        return partition_for(f"{all_settings.prefix}{requests.GROUP}{number:06}", all_settings.partitions)

    only_home = all_settings.one_partition
    candidates = (n for n in range(requests.MAX_GROUPS) if not only_home or find_partition(n) == find_partition(0))
    numbers = list(islice(candidates, all_settings.groups))
    if len(numbers) < all_settings.groups:
        raise UsageError(f"groups: only {len(numbers)} names belong to the one partition; choose fewer groups")
    group_digits = requests.format_digits(np.array(numbers), requests.GROUP_DIGITS)
    partition_of_group = np.array([*map(find_partition, numbers)])
    all_requests = requests.draw_requests(all_settings)
    partition_of_request = partition_of_group[all_requests["group"]]
    # A request's index is also its time in ms.
    times_sorted_by_partition = np.argsort(partition_of_request, kind="stable")
    partition_numbers, first_indexes = np.unique(partition_of_request[times_sorted_by_partition], return_index=True)
    del partition_of_request  # A large topic needs the memory.
    # For each group and key: whether the offset is live, i.e. a coordinator answers with it after a load.
    is_live = np.zeros((all_settings.groups, all_settings.keys), bool)
    partition_counts = {}
    records_written = 0

    def report_records(record_count: int) -> None:
        nonlocal records_written
        records_written += record_count
        if progress:
            progress(records_written, records)

    times_of_each_partition = np.split(times_sorted_by_partition, first_indexes[1:])
    with new_folder(Path(folder)) as whole_folder:
        # strict is False, because np.split returns one empty array if there are no requests and no partitions.
        for number, request_times in zip(partition_numbers.tolist(), times_of_each_partition, strict=False):
            partition_requests = all_requests[request_times]
            requests.mark_live(all_settings, partition_requests, is_live)
            batches = requests.build_events(all_settings, request_times, partition_requests, number)
            partition_counts[str(number)] = files.write_partition(
                whole_folder / f"__consumer_offsets-{number}", all_settings, batches, group_digits, report_records
            )
    marker_counts = np.bincount(all_requests["marker"], minlength=requests.NO_MARKER + 1)
    return {
        "partitions": partition_counts,
        "groups": len(np.unique(all_requests["group"])),
        "live_offsets": int(is_live.sum()),
        "transactions": {
            "committed": int(marker_counts[requests.COMMIT_MARKER]),
            "aborted": int(marker_counts[requests.ABORT_MARKER]),
            "open": int(marker_counts[requests.NO_MARKER]),
        },
    }
