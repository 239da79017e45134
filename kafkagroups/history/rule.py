"""The base of all rules that find something wrong with a partition, and what a rule can ask about it.

A log of a healthy broker has no findings. A rule gets what the first pass has counted and loaded, which costs nothing
per record. If it needs batches as well, it says which (second_pass.py). It changes nothing that it looks at. The rules
are grouped by what they are about: cleaning.py, failures.py, group_rules.py, moved_groups.py, odd_writers.py,
static_members.py and transactions.py. What only all partitions together show is found in their statistics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.groups.group_parts import GroupParts
from kafkagroups.groups.shard import LoadedPartition
from kafkagroups.history.finding import Finding
from kafkagroups.history.second_pass import Follower
from kafkagroups.history.stats import PartitionStats
from kafkagroups.history.totals import Totals
from kafkagroups.loading.groups import Groups
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect


@dataclass
class Misplaced:
    """The groups of a partition that belong to other partitions: the home partition of each, for a partition count.

    `same_until` has the last offset up to which the log has the same bytes as that of a home partition.
    """

    count: int
    homes: dict[str, int] = field(default_factory=dict)
    same_until: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Partition:
    """What a rule can ask about one partition.

    `groups` is the load of all partitions, `parts` are the parts of its groups, and `loaded` says how the load of this
    partition ended. `totals` and `counts` are what its records come to, and `commits` has the number of its commits by
    group id. `misplaced` are its groups that belong to other partitions.
    """

    log: Log
    dialect: Dialect
    groups: Groups
    parts: Mapping[str, GroupParts]
    totals: Totals
    counts: PartitionStats
    commits: Counter[str]
    misplaced: Misplaced | None = None

    @property
    def number(self) -> int | None:
        return self.log.partition

    @property
    def loaded(self) -> LoadedPartition:
        return self.groups.partitions[self.number]


class Rule(Follower, ABC):
    """A rule about one partition. Call `find` after the second pass."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    @abstractmethod
    def find(self) -> Iterable[Finding]:
        """Return the findings."""

    def finding(self, offset: int | None, kind: str, what: str, remedy: str, **fields: Any) -> Finding:
        """Return a finding about the partition. `fields` are further fields of `Finding`."""
        place = {"group": None, "topic_partition": None} | fields
        return Finding(self.partition.number, offset, kind=kind, what=what, remedy=remedy, **place)
