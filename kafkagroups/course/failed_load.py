"""Lesson 11: a partition that does not load."""

from __future__ import annotations

import shutil
from pathlib import Path

from kafkagroups.course.lesson_folders import find_data, make_scratch_folder
from kafkagroups.course.small_logs import encode_commit, encode_records
from kafkagroups.log.folders import open_log
from kafkagroups.log.writer import LogWriter

_PARTITION = "__consumer_offsets-9"


def copy_failing_partition() -> Path:
    """Return a new folder with a partition that does not load: the folder `copy/__consumer_offsets-9`.

    The log is that of the shop's broker (Kafka 4.3.1), and two records follow:

    - 45: a record with the key of an offset of `fraud-check` and a value of zero bytes
    - 46: a commit of `billing` for orders-0
    """
    folder = make_scratch_folder()
    copy = folder / "copy" / _PARTITION
    copy.mkdir(parents=True)
    for segment in Path(find_data(f"harbour/4.3.1/{_PARTITION}")).glob("*.log"):
        shutil.copy(segment, copy)
    *_, last_batch = open_log(copy)
    key, _ = encode_commit("fraud-check", None, "payments")
    with LogWriter(copy) as log:
        for seconds, record in enumerate([(key, b""), encode_commit("billing", 60, "orders")], 1):
            log.append(encode_records(log.next_offset, last_batch.max_timestamp + seconds * 1000, [record]))
    return folder
