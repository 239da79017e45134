"""The topics that the ways load, written by the package's own generator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kafkagroups.log.segment_file import SEGMENT_BYTES

SHAPE = {
    "keys": 100,  # topic-partitions of a group
    "width": None,  # half of the batches have one record, the others 5 to 15
    "skew": 0,
    "tombstones": 0.02,
    "generations": 0.01,
    "prefix": "some.team-its.service-",
}
"""The settings of the generator. All groups are equally busy, so caches help none of the ways. Names are as long as in
real clusters, so a record takes 127 bytes."""
MANY_GROUPS = 10_000
"""With a hundred keys each, a million keys. A log below ten million records has fewer groups, so that each key is
written ten times."""


@dataclass(frozen=True)
class Spec:
    """A topic to generate. `groups` is None for the usual number, and `transactional` a part of the commits."""

    records: int
    partitions: int
    groups: int | None = None
    transactional: float = 0.0
    segment_bytes: int = SEGMENT_BYTES


@dataclass(frozen=True)
class Topic:
    """A generated topic. `live` is the number of offsets that a load must find."""

    folder: Path
    records: int
    groups: int
    live: int
    bytes: int

    def list_segments(self) -> list[Path]:
        """Return the segments of all partitions; those of one partition are in order."""
        return sorted(self.folder.glob("__consumer_offsets-*/*.log"))

    def read_all_bytes(self) -> None:
        """Read all bytes once, so that they are in the page cache: the disk is not measured."""
        buffer = bytearray(1 << 20)
        for segment in self.list_segments():
            with segment.open("rb") as file:
                while file.readinto(buffer):
                    pass


def generate(folder: Path, spec: Spec) -> Topic:
    """Write the topic into a new folder."""
    from kafkagroups import synth

    groups = spec.groups or max(1, min(MANY_GROUPS, spec.records // 1000))
    written = synth.write(
        folder,
        spec.records,
        partitions=spec.partitions,
        groups=groups,
        transactional=spec.transactional,
        segment_bytes=spec.segment_bytes,
        **SHAPE,
    )
    partitions = written["partitions"].values()
    records, size = (sum(partition[name] for partition in partitions) for name in ("records", "bytes"))
    return Topic(folder, records, groups, written["live_offsets"], size)
