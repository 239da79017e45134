"""What a synthetic topic is made of."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkagroups.errors import UsageError
from kafkagroups.log.compression import CompressionType
from kafkagroups.log.partitioning import partition_for
from kafkagroups.log.segment_file import SEGMENT_BYTES

WIDTH = 8
"""Records in a batch, unless something else is asked for."""
MOST_GROUPS = 1_000_000
MOST_KEYS = 10_000
MOST_OFFSETS = 100_000_000
"""Groups × keys."""
MOST_WIDTH = 50
TOPIC_PARTITIONS = 100
"""A group with more keys than this reads several topics."""
WIDEST = 15
"""Of varied batches, half hold one record, the others 5 to 15."""


@dataclass(frozen=True)
class Settings:
    """The arguments of `write`; shares are from 0 to 1, of all records or of all groups.

    `keys`: topic-partitions that a group commits, so that groups × keys offsets may be live. `width`: records in a
    batch, at most `keys`; None for varied ones. `skew`: the n-th group is busy as 1 / n^skew: 1 is Zipf's law, 0 has
    all alike. `hot`: share of the groups whose home is one partition.

    Of the records `tombstones` are tombstones, `generations` belong to groups' generations (None: none, or 0.01 where
    there are modern groups) with so many `members`. Of the groups `transactional` commit in transactions, of which
    `aborts` are aborted and `hanging` are never decided; `modern` are consumer groups of the new protocol (KIP-848).
    Of the batches of commits `metadata` have a metadata string. All names begin with `prefix`.
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
        """The most records that a batch of offsets holds."""
        return min(self.width or WIDEST, self.keys)

    @property
    def generation_share(self) -> float:
        return (0.01 if self.modern else 0.0) if self.generations is None else self.generations

    @property
    def modern_records(self) -> int:
        """Records of a modern group's new epoch: the group, its target's epoch, three for each member."""
        return 2 + 3 * self.members


def check(settings: Settings) -> None:
    """UsageError for what cannot be written."""
    s = settings
    partition_for("", s.partitions)
    _within("partitions", s.partitions, 1, 2**31 - 1)
    _within("records", s.records, 0, 2**40)
    _within("groups", s.groups, 1, MOST_GROUPS)
    _within("keys of a group", s.keys, 1, min(MOST_KEYS, MOST_OFFSETS // s.groups))
    if s.width is not None:
        _within("records in a batch", s.width, 1, MOST_WIDTH)
    _within("the skew", s.skew, 0, 10)
    _within("members", s.members, 1, 50)
    _within("bytes of a segment", s.segment_bytes, 1, 2**31 - 1)
    _within("the seed", s.seed, 0, 2**63 - 1)
    for name in ("hot", "tombstones", "transactional", "aborts", "hanging", "modern", "metadata"):
        _within(f"the share {name!r}", getattr(s, name), 0, 1)
    _within("the share 'generations'", s.generation_share, 0, 1)
    _within("the shares of tombstones and generations together", s.tombstones + s.generation_share, 0, 1)
    _within("the shares of aborts and hanging transactions together", s.aborts + s.hanging, 0, 1)
    if s.codec.upper() not in CompressionType.__members__:
        raise UsageError(f"the codec is one of {', '.join(c.name.lower() for c in CompressionType)}, not {s.codec!r}")
    if not re.fullmatch(r"[A-Za-z0-9._-]{0,100}", s.prefix):
        raise UsageError(f"a prefix of at most 100 letters, digits, '.', '_' and '-' was expected, not {s.prefix!r}")


def _within(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise UsageError(f"{name}: {least} to {most} was expected, not {value}")
