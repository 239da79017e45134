"""Synthetic `__consumer_offsets` topics of any size, with a few busy groups and many quiet ones.

A batch is the result of one request. A group commits some of its topic-partitions, or these offsets expire, or the
group enters a new generation. Transactions of several groups overlap. A marker ends a transaction, unless it hangs.
Every group is in the partition that Kafka stores it in. The same arguments give the same bytes.

Names have a fixed width, so all batches of a kind differ only in a few places. Each kind is encoded once, as a
template; numpy copies the template and fills in the places.

    settings.py    the arguments                    events.py     a partition's batches, with markers
    names.py       group names and their partitions templates.py  one batch of each kind, and its places
    requests.py    random requests                  files.py      bytes and segments

Simpler than Kafka, so that the summary is exact and both coordinators agree on it:

- A transaction is one batch of commits. It ends before its group writes again.
- A hanging transaction has its own producer, and its group writes no tombstones after it.
- Groups are never deleted. A group's members, topics and assignment are the same in all generations.
- Producer epochs are 0. There is one request per millisecond.

numpy is imported when a topic is written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafkagroups.log.writer import create_folder
from kafkagroups.synth.settings import WIDTH, Settings, check

__all__ = ["WIDTH", "Settings", "write"]

Progress = Callable[[int, int], None]
"""Called with the number of records that were written and the number of all records."""


def write(folder: str | Path, records: int, *, progress: Progress | None = None, **settings: Any) -> dict[str, Any]:
    """Write a topic: `folder`/__consumer_offsets-N/<base offset>.log for every partition that has records.

    Parameters
    ----------
    folder
        A new or empty folder.
    records
        How many records all partitions contain, markers included.
    progress
        Called after each part with the number of records that were written and the number of all records.
    **settings
        The other fields of `Settings`: partitions, groups, keys, width, tombstones, transactional, codec, seed, …

    Returns
    -------
    dict
        `{"partitions": {"0": {"segments", "batches", "records", "bytes"}}, "groups", "live_offsets", "transactions":
        {"committed", "aborted", "open"}}`. `groups` counts the groups that have records. `live_offsets` counts the
        offsets that a load finds.

    Raises
    ------
    UsageError
        A number is out of range, or the folder is not empty.
    """
    chosen = Settings(records, **settings)
    check(chosen)
    import numpy as np

    from kafkagroups.synth import events, files, names, requests

    digits, partition_of_group = names.choose_groups(chosen)
    create_folder(Path(folder))
    drawn = requests.draw_requests(chosen)
    partition = partition_of_group[drawn["group"]]
    order = np.argsort(partition, kind="stable")
    numbers, first = np.unique(partition[order], return_index=True)
    del partition
    live = np.zeros((chosen.groups, chosen.keys), bool)
    written = {}
    done = 0

    def count_written(many: int) -> None:
        nonlocal done
        done += many
        if progress:
            progress(done, records)

    # Without records there are no numbers, but np.split still gives one part.
    for number, time in zip(numbers.tolist(), np.split(order, first[1:]), strict=False):
        own_requests = drawn[time]
        events.mark_live(chosen, own_requests, live)
        batches = events.build_events(chosen, time, own_requests, number)
        place = Path(folder, f"__consumer_offsets-{number}")
        written[str(number)] = files.write_partition(place, chosen, batches, digits, count_written)
    ends = np.bincount(drawn["end"], minlength=requests.OPEN + 1)
    return {
        "partitions": written,
        "groups": len(np.unique(drawn["group"])),
        "live_offsets": int(live.sum()),
        "transactions": {
            "committed": int(ends[requests.COMMITTED]),
            "aborted": int(ends[requests.ABORTED]),
            "open": int(ends[requests.OPEN]),
        },
    }
