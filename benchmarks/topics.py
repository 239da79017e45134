"""The topics that the ways load: generated, and described by a JSON file."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from kafkagroups.log.segment_file import SEGMENT_BYTES

BYTES_PER_RECORD = 150
"""More than a record needs on disk."""
KEYS = 100
"""The number of topic-partitions that a group commits."""
SHAPE = {
    "keys": KEYS,
    "width": None,
    "skew": 0,
    "tombstones": 0.02,
    "generations": 0.01,
    "prefix": "some.team-its.service-",
}
"""The settings of the generator. Half of the batches contain one record. All groups are equally busy, so that caches
help no way. The names are as long as in real clusters, so a record takes 127 bytes."""


@dataclass(frozen=True)
class Topic:
    """A generated topic. `live` is the number of offsets that a load must find."""

    folder: Path
    records: int
    partitions_count: int
    groups: int
    live: int
    bytes: int
    batches: int

    def partitions(self) -> list[list[Path]]:
        """Return the segments of each partition, in order."""
        return [sorted(place.glob("*.log")) for place in sorted(self.folder.glob("__consumer_offsets-*"))]

    def segments(self) -> list[Path]:
        return [segment for segments in self.partitions() for segment in segments]

    def read_all_bytes(self) -> None:
        """Read all bytes once, so that they are in the page cache: the disk is not measured."""
        buffer = bytearray(1 << 20)
        for segment in self.segments():
            with segment.open("rb") as file:
                while file.readinto(buffer):
                    pass

    @property
    def rows(self) -> Path:
        """The folder of the topic's rows as Parquet (rows.py)."""
        return self.folder.with_name(self.folder.name + "-rows")


def name_of(records: int, partitions: int, groups: int) -> str:
    return f"{records}-{partitions}-{groups}"


def generate(place: Path, records: int, partitions: int, groups: int, segment_bytes: int = SEGMENT_BYTES) -> Topic:
    """Return the topic of this size below `place`, generated if it is new. OSError if the disk is too full."""
    from kafkagroups import synth

    suffix = "" if segment_bytes == SEGMENT_BYTES else f"-in-{segment_bytes}"
    folder = place / (name_of(records, partitions, groups) + suffix)
    description = folder.with_name(folder.name + ".json")
    if not description.exists():
        shutil.rmtree(folder, ignore_errors=True)
        need = records * BYTES_PER_RECORD
        free = shutil.disk_usage(place).free
        if free < need * 1.2:
            raise OSError(f"{records:,} records need {need / 1e9:.1f} GB, {place} has {free / 1e9:.1f} GB")
        written = synth.write(
            folder, records, partitions=partitions, groups=groups, segment_bytes=segment_bytes, **SHAPE
        )
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
        description.write_text(json.dumps(asdict(topic) | {"folder": str(folder)}))
    return read(description)


def read(description: Path) -> Topic:
    """Return the topic that a JSON file describes."""
    fields = json.loads(description.read_text())
    fields["folder"] = Path(fields["folder"])
    return Topic(**fields)
