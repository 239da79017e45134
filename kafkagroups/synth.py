"""A synthetic topic of any size: commits and tombstones of groups of which few are busy and most are not.

A batch is one OffsetCommit request: a group commits WIDTH partitions of its topic at once, all at one time; a batch of
tombstones is what expiry writes when it forgets them. Names have a fixed width, so all batches of a kind have the same
length and are one numpy array, written as it is. Every group lives in its right partition; the same arguments give
the same bytes.

Simpler than Kafka: no group records, no transactions, no compression, one topic for each group, batches of one size.
numpy is imported when a topic is written.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crc32c import crc32c

from kafkagroups.errors import UsageError
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.record_batch import CRC_FROM
from kafkagroups.log.segments import SEGMENT_BYTES
from kafkagroups.log.writer import new_folder

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

WIDTH = 8
"""Records in a batch; the last batch of all may have fewer."""
MOST_GROUPS = 1_000_000
FIRST_TIME = 1_700_000_000_000

_HEADER: list[Any] = [
    ("base_offset", ">i8"), ("length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"), ("crc", ">u4"),
    ("attributes", ">i2"), ("last_offset_delta", ">i4"), ("base_time", ">i8"), ("max_time", ">i8"),
    ("producer_id", ">i8"), ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("count", ">i4"),
]  # fmt: skip
_KEY = [
    ("type", ">i2"), ("group_length", ">i2"), ("group", "S12"), ("topic_length", ">i2"), ("topic", "S10"),
    ("partition", ">i4"),
]  # fmt: skip
_VALUE = [
    ("version", ">i2"), ("offset", ">i8"), ("leader_epoch", ">i4"), ("metadata_length", ">i2"), ("time", ">i8"),
]  # fmt: skip


def write(
    folder: str | Path,
    records: int,
    *,
    partitions: int = 50,
    groups: int = 1000,
    tombstones: float = 0.02,
    seed: int = 0,
) -> dict[str, Any]:
    """Writes `folder`/__consumer_offsets-N/<base offset>.log for every partition that gets records, and says what.

    `{"partitions": {"0": {"segments", "batches", "records", "bytes"}}, "groups", "live_offsets", "transactions"}`:
    groups that have records, offsets that a load will find. `tombstones` is their share of the records. UsageError:
    a number out of range, or a folder that is not empty.
    """
    import numpy as np

    _check(Path(folder), records, groups, tombstones)
    random = np.random.default_rng(seed)
    width = np.full(-(-records // WIDTH), WIDTH)
    width[-1:] = (records - 1) % WIDTH + 1
    busy = 1 / np.arange(1, groups + 1)  # the second group commits half as often as the first, the third a third
    group = random.choice(groups, len(width), p=busy / busy.sum())
    dead = random.random(len(width)) < tombstones

    live = np.zeros((groups, WIDTH), bool)
    live[group[:-1]] = ~dead[:-1, None]  # where a group stands twice, the later one counts
    if records:
        live[group[-1], : width[-1]] = not dead[-1]
    home = np.array([partition_for(_group_name(number), partitions) for number in range(groups)])
    written = {}
    for partition in np.unique(home[group]).tolist():
        mine = np.flatnonzero(home[group] == partition)
        place = Path(folder, f"__consumer_offsets-{partition}")
        written[str(partition)] = _write_partition(place, mine, group[mine], dead[mine], width[mine])
    return {
        "partitions": written,
        "groups": len(np.unique(group)),
        "live_offsets": int(live.sum()),
        "transactions": {"committed": 0, "aborted": 0, "open": 0},
    }


def _check(folder: Path, records: int, groups: int, tombstones: float) -> None:
    if records < 0 or not 1 <= groups <= MOST_GROUPS or not 0 <= tombstones <= 1:
        raise UsageError(f"records from 0, groups from 1 to {MOST_GROUPS}, a share of tombstones from 0 to 1")
    new_folder(folder)


def _group_name(number: int) -> str:
    return f"group-{number:06}"


def _write_partition(folder: Path, time: Array, group: Array, dead: Array, width: Array) -> dict[str, int]:
    """Writes the batches of one partition: when (in order), of which group, tombstones or not, how many records."""
    import numpy as np

    folder.mkdir()
    base = np.cumsum(width) - width
    sizes = [[_batch_type(many, tombs).itemsize for tombs in (False, True)] for many in range(WIDTH + 1)]
    size = np.array(sizes)[width, dead * 1]
    segment = (np.cumsum(size) - 1) // SEGMENT_BYTES
    kind = 2 * width + dead
    for number in range(segment[-1] + 1):
        inside = np.flatnonzero(segment == number)
        with open(folder / f"{base[inside[0]]:020}.log", "wb") as file:
            for run in np.split(inside, np.flatnonzero(np.diff(kind[inside])) + 1):
                file.write(_batches(base[run], time[run], group[run], dead[run[0]], width[run[0]]))
    return {
        "segments": int(segment[-1]) + 1,
        "batches": len(width),
        "records": int(width.sum()),
        "bytes": int(size.sum()),
    }


def _batches(base_offset: Array, time: Array, group: Array, dead: bool, width: int) -> bytes:
    """Batches of one kind, one behind the other."""
    import numpy as np

    out = np.zeros(len(time), _batch_type(width, dead))
    size = out.itemsize
    out["base_offset"], out["length"], out["magic"], out["count"] = base_offset, size - 12, 2, width
    out["last_offset_delta"] = width - 1
    out["base_time"] = out["max_time"] = FIRST_TIME + time
    out["producer_id"] = out["producer_epoch"] = out["base_sequence"] = -1

    record = out["records"]
    record["length"] = _varint(record.dtype.itemsize - 1)
    record["offset_delta"] = [_varint(i) for i in range(width)]
    record["key_length"] = _varint(record["key"].dtype.itemsize)
    key = record["key"]
    key["type"], key["group_length"], key["topic_length"] = 1, 12, 10
    key["group"] = np.array([_group_name(number) for number in group], "S12")[:, None]
    key["topic"] = np.array([f"topic-{number % 10_000:04}" for number in group], "S10")[:, None]
    key["partition"] = np.arange(width)
    if dead:
        record["value_length"] = _varint(-1)
    else:
        record["value_length"] = _varint(record["value"].dtype.itemsize)
        value = record["value"]
        value["version"], value["leader_epoch"] = 3, 0
        value["offset"] = 10 * time[:, None] + np.arange(width)  # so each group's offsets rise
        value["time"] = FIRST_TIME + time[:, None]

    content = out.view("u1").data
    out["crc"] = [crc32c(content[at + CRC_FROM : at + size]) for at in range(0, len(content), size)]
    return out.tobytes()


@cache
def _batch_type(width: int, dead: bool) -> np.dtype[Any]:
    """The layout of a batch, lengths of one byte: a record's and its parts' are below 64."""
    import numpy as np

    record: list[Any] = [("length", "u1"), ("attributes", "u1"), ("time_delta", "u1"), ("offset_delta", "u1")]
    record += [("key_length", "u1"), ("key", _KEY), ("value_length", "u1")]
    record += [] if dead else [("value", _VALUE)]
    record += [("headers", "u1")]
    return np.dtype([*_HEADER, ("records", record, (width,))])


def _varint(number: int) -> int:
    """The zigzag varint of a number that fits in one byte."""
    return number << 1 if number >= 0 else ~(number << 1)
