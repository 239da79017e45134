"""The settings of a synthetic topic, and their limits."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkagroups.errors import UsageError
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segment_file import SEGMENT_BYTES

WIDTH = 8
"""The default number of records in a batch."""
MOST_GROUPS = 1_000_000
MOST_KEYS = 10_000
MOST_OFFSETS = 100_000_000
"""The most offsets that a topic can have: groups × keys."""
MOST_WIDTH = 50
TOPIC_PARTITIONS = 100
"""The partitions of each topic. A group with more keys than this reads several topics."""
WIDEST = 15
"""The most records in a batch of varied width: half of them have one record, the others 5 to 15."""


@dataclass(frozen=True)
class Settings:
    """The arguments of `write`. Fractions are from 0 to 1.

    Parameters
    ----------
    records
        How many records the topic contains, markers included.
    partitions
        How many partitions the topic has.
    groups
        How many groups there are.
    keys
        How many topic-partitions each group commits. Up to groups × keys offsets can be live.
    width
        Records in a batch, at most `keys`. None varies the width.
    skew
        How unequal the groups are. The n-th group sends requests in proportion to 1 / n^skew: 1 is Zipf's law, and with
        0 all groups are equally busy.
    hot
        The fraction of the groups that are in one partition.
    tombstones
        The fraction of the records that are tombstones of offsets.
    generations
        The fraction of the records that are group records. None means 0, or 0.01 if there are modern groups.
    members
        How many members each group has.
    transactional
        The fraction of the groups that commit in transactions.
    aborts
        The fraction of the transactions that are aborted.
    hanging
        The fraction of the transactions that never end.
    modern
        The fraction of the groups that use the new consumer protocol (KIP-848).
    metadata
        The fraction of the batches of commits that have a metadata string.
    codec
        The compression codec of the batches: none, gzip, snappy, lz4 or zstd.
    segment_bytes
        The size at which a segment is rolled.
    prefix
        The start of all group and topic names.
    seed
        The seed of the random numbers.
    """

    records: int
    partitions: int = 50
    groups: int = 1000
    keys: int = WIDTH
    width: int | None = WIDTH
    skew: float = 1.0
    hot: float = 0.0
    tombstones: float = 0.02
    generations: float | None = None
    members: int = 3
    transactional: float = 0.0
    aborts: float = 0.1
    hanging: float = 0.001
    modern: float = 0.0
    metadata: float = 0.0
    codec: str = "none"
    segment_bytes: int = SEGMENT_BYTES
    prefix: str = ""
    seed: int = 0

    @property
    def widest(self) -> int:
        """The most records in a batch of offsets."""
        return min(self.width or WIDEST, self.keys)

    @property
    def generation_fraction(self) -> float:
        """The fraction of the records that are group records."""
        if self.generations is not None:
            return self.generations
        return 0.01 if self.modern else 0.0

    @property
    def modern_records(self) -> int:
        """The records of a modern group's new epoch: two for the group and three for each member."""
        return 2 + 3 * self.members


def check(settings: Settings) -> None:
    """Raise UsageError if a setting is out of range."""
    s = settings
    partition_for("", s.partitions)
    _check_range("partitions", s.partitions, 1, 2**31 - 1)
    _check_range("records", s.records, 0, 2**40)
    _check_range("groups", s.groups, 1, MOST_GROUPS)
    _check_range("keys of a group", s.keys, 1, min(MOST_KEYS, MOST_OFFSETS // s.groups))
    if s.width is not None:
        _check_range("records in a batch", s.width, 1, MOST_WIDTH)
    _check_range("the skew", s.skew, 0, 10)
    _check_range("members", s.members, 1, 50)
    _check_range("bytes of a segment", s.segment_bytes, 1, 2**31 - 1)
    _check_range("the seed", s.seed, 0, 2**63 - 1)
    for name in ("hot", "tombstones", "transactional", "aborts", "hanging", "modern", "metadata"):
        _check_range(f"the fraction {name!r}", getattr(s, name), 0, 1)
    _check_range("the fraction 'generations'", s.generation_fraction, 0, 1)
    _check_range("the fractions of tombstones and generations together", s.tombstones + s.generation_fraction, 0, 1)
    _check_range("the fractions of aborts and hanging transactions together", s.aborts + s.hanging, 0, 1)
    codecs = ", ".join(codec.name.lower() for codec in CompressionType)
    if s.codec.upper() not in CompressionType.__members__:
        raise UsageError(f"codec: expected one of {codecs}, found {s.codec!r}")
    if not re.fullmatch(r"[A-Za-z0-9._-]{0,100}", s.prefix):
        raise UsageError(f"prefix: expected at most 100 letters, digits, '.', '_' and '-', found {s.prefix!r}")


def _check_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise UsageError(f"{name}: expected {least} to {most}, found {value}")
