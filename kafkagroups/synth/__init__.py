"""A synthetic topic of any size: what many groups write, of which few are busy and most are not.

A batch is one request: a group commits some of its topic-partitions at once, or expiry forgets them, or the group
enters a new generation. Transactions of several groups overlap, and a marker ends each of them, or none does. Names
have a fixed width, so all batches of a kind differ in few places: each kind is encoded once and its copies are numpy
arrays. Every group lives in its right partition; the same arguments give the same bytes.

    settings.py    what can be asked for          events.py     a partition's batches, markers among them
    names.py       groups and their homes         templates.py  a batch of each kind, and its places
    requests.py    who asks for what, by a seed   files.py      bytes and segments

Simpler than Kafka, so that the summary is exact and both coordinators agree on it: a transaction is one batch of
commits, and ends before its group writes again (one that never ends has a producer of its own, and its group writes no
more tombstones); groups never die; a group's members, topics and assignment stay the same in all generations; epochs
of producers are 0. One request a millisecond. numpy is imported when a topic is written.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafkagroups.log.writer import create_folder
from kafkagroups.synth.settings import WIDTH, Settings, check

__all__ = ["WIDTH", "Settings", "write"]

Progress = Callable[[int, int], None]
"""Hears how many records were written, and of how many."""


def write(folder: str | Path, records: int, *, progress: Progress | None = None, **settings: Any) -> dict[str, Any]:
    """Writes `folder`/__consumer_offsets-N/<base offset>.log for every partition that gets records, and says what.

    `settings` are those of `Settings`: partitions, groups, keys, width, tombstones, transactional, codec, seed and
    others. Gives `{"partitions": {"0": {"segments", "batches", "records", "bytes"}}, "groups", "live_offsets",
    "transactions": {"committed", "aborted", "open"}}`: groups that have records, offsets that a load will find.
    UsageError: a number out of range, or a folder that is not empty.
    """
    asked = Settings(records, **settings)
    check(asked)
    import numpy as np

    from kafkagroups.synth import events, files, names, requests

    digits, home = names.choose(asked)
    create_folder(Path(folder))
    drawn = requests.draw(asked)
    partition = home[drawn["group"]]
    order = np.argsort(partition, kind="stable")
    numbers, first = np.unique(partition[order], return_index=True)
    del partition
    live = np.zeros((asked.groups, asked.keys), bool)
    written, done = {}, 0

    def wrote(many: int) -> None:
        nonlocal done
        done += many
        if progress:
            progress(done, records)

    for number, time in zip(numbers.tolist(), np.split(order, first[1:]), strict=False):  # without records, no number
        mine = drawn[time]
        events.note_live(asked, mine, live)
        batches = events.events(asked, time, mine, number)
        place = Path(folder, f"__consumer_offsets-{number}")
        written[str(number)] = files.write_partition(place, asked, batches, digits, wrote)
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
