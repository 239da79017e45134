"""The topic that is loaded: generated, described, and as rows in Parquet for the ways that start there."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

BYTES_A_RECORD = 150
"""More than a record takes on disk."""
KEYS = 100
"""That a group commits."""
SHAPE = {
    "keys": KEYS,
    "width": None,
    "skew": 0,
    "tombstones": 0.02,
    "generations": 0.01,
    "prefix": "some.team-its.service-",
}
"""What is written: batches of which half hold one record; groups that are all as busy, so that caches help nobody;
names as long as people make them, so that a record takes 127 bytes."""


@dataclass(frozen=True)
class Topic:
    """A generated topic. `live` is how many offsets a load finds."""

    folder: Path
    records: int
    partitions_count: int
    groups: int
    live: int
    bytes: int
    batches: int

    def partitions(self) -> list[list[Path]]:
        """The segments of each partition, in order."""
        return [sorted(place.glob("*.log")) for place in sorted(self.folder.glob("__consumer_offsets-*"))]

    def segments(self) -> list[Path]:
        return [segment for segments in self.partitions() for segment in segments]

    def read(self) -> None:
        """All bytes once, so that they are in the system's memory: what is compared is no disk."""
        room = bytearray(1 << 20)
        for segment in self.segments():
            with segment.open("rb") as file:
                while file.readinto(room):
                    pass

    @property
    def rows(self) -> Path:
        return self.folder.with_name(self.folder.name + "-rows")


def name_of(records: int, partitions: int, groups: int) -> str:
    return f"{records}-{partitions}-{groups}"


def make(place: Path, records: int, partitions: int, groups: int, rows: bool) -> Topic:
    """Generates a topic below `place`, or takes the one that is there. OSError: too little room."""
    from kafkagroups import synth

    folder = place / name_of(records, partitions, groups)
    about = folder.with_name(folder.name + ".json")
    if not about.exists():
        shutil.rmtree(folder, ignore_errors=True)
        need, free = records * BYTES_A_RECORD, shutil.disk_usage(place).free
        if free < need * 1.2:
            raise OSError(f"{records:,} records need {need / 1e9:.1f} GB, {place} has {free / 1e9:.1f} GB")
        written = synth.write(folder, records, partitions=partitions, groups=groups, **SHAPE)
        parts = written["partitions"].values()
        topic = Topic(
            folder,
            sum(part["records"] for part in parts),
            partitions,
            groups,
            written["live_offsets"],
            sum(part["bytes"] for part in parts),
            sum(part["batches"] for part in parts),
        )
        about.write_text(json.dumps(asdict(topic) | {"folder": str(folder)}))
    topic = read(about)
    if rows and not topic.rows.exists():
        write_rows(topic)
    return topic


def read(about: Path) -> Topic:
    told = json.loads(about.read_text())
    return Topic(**(told | {"folder": Path(told["folder"])}))


def write_rows(topic: Topic) -> None:
    """Offset, key and value of each record as Parquet, a file a segment, by names that Spark sees: not __consumer…"""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from benchmarks.ways.arrays import gathered, records_of

    topic.rows.mkdir()
    for segment in topic.segments():
        data = np.fromfile(segment, np.uint8)
        found = records_of(data)
        offset = pa.Array.from_buffers(pa.int64(), len(found.offset), [None, pa.py_buffer(found.offset)])
        columns = {
            "offset": offset,
            "key": gathered(data, found.key, found.key_size),
            "value": gathered(data, found.value, found.value_size),
        }
        pq.write_table(pa.table(columns), topic.rows / f"{segment.parent.name.strip('_')}-{segment.stem}.parquet")
