"""What a rule can ask about a partition, and the refusal of foreign logs.

A rule is a function of a partition that finds something wrong. It asks what the load has counted, and that decides
whether it has to read batches, too, for example those of a producer whose transaction is still open. Most logs need no
such reading.

A coordinator skips most records of an ordinary topic or of KRaft's metadata, so a finding about such a log would have a
remedy that damages a log that is fine. Therefore it is refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.errors import BadBytes, ForeignLog
from kafkagroups.groups.replay import LoadedPartition
from kafkagroups.helpers import MAX_INT64, MIN_INT64
from kafkagroups.history.finding import Finding
from kafkagroups.history.stats import Count, PartitionStats
from kafkagroups.history.totals import Totals
from kafkagroups.loading import native
from kafkagroups.loading.groups import GroupParts, Groups
from kafkagroups.loading.load import Engine, OpenTopic
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.segment_file import WHOLE_FILE, base_offset_of
from kafkagroups.log.segments import Log, Stop
from kafkagroups.records.releases import CHECKED_VERSIONS, DEFAULT_DIALECT, Dialect, dialect
from kafkagroups.records.serde import RECORD_TYPES, ControlType, decode_control_key, decode_key


def list_readable(batch: Batch) -> tuple[LogRecord, ...]:
    """The records of a batch; none if they cannot be read, which the load has found, too."""
    try:
        return batch.records
    except BadBytes:
        return ()


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
    partition ended. `totals` and `counts` are what its records come to, `by_group` those of each group id, and
    `commits` counts the offset records with a value. `returned` are groups that committed to a topic again after
    offsets of it were deleted, once or twice. `misplaced` are its groups that belong to other partitions.
    """

    log: Log
    dialect: Dialect
    engine: Engine
    groups: Groups
    loaded: LoadedPartition
    parts: Mapping[str, GroupParts]
    totals: Totals
    counts: PartitionStats
    by_group: Mapping[str, Count]
    commits: Counter[str]
    returned: set[str]
    misplaced: Misplaced | None = None

    def read(
        self, producers: Collection[int] | None = None, first_offset: int = MIN_INT64, last_offset: int = MAX_INT64
    ) -> Iterator[Batch]:
        """Read the batches from an offset to the one that begins at `last_offset`, of some producers or of all.

        Their records can be unreadable. Segments that are not needed are not opened.
        """
        log = self.log
        bases = [base_offset_of(segment) for segment in log.segments]
        # A transaction can begin right after the end of another one, which is in the segment before.
        first = max(0, bisect_right(bases, first_offset) - 2)
        end = max(1, bisect_right(bases, last_offset))
        part = log.select_ranges({segment: log.ranges.get(segment, WHOLE_FILE) for segment in log.segments[first:end]})
        part.skips_damage = log.skips_damage
        reading = None
        if self.engine.name == "compiled" and producers is not None:
            stop = Stop(until_offset=last_offset + 1)
            reading = native.read_if_possible(part, DEFAULT_DIALECT, stop, producers=set(producers))
        for batch in part if reading is None else native.read_batches_at(part, reading.found_batches()[0]):
            if batch.base_offset > last_offset:
                return
            if producers is None or batch.producer_id in producers:
                yield batch

    @property
    def number(self) -> int | None:
        return self.log.partition

    @property
    def rule_options(self) -> tuple[str, ...]:
        """The options of a command that follows the same rules."""
        return ("--coordinator", self.dialect.coordinator, "--kafka", self.dialect.kafka)

    def list_groups(self) -> Iterator[tuple[str, GroupParts]]:
        """Yield the groups with offsets for which a broker answers from this partition."""
        for group_id, parts in self.parts.items():
            if parts.group.partition == self.number and parts.offsets:
                yield group_id, parts

    def finding(self, offset: int | None, kind: str, what: str, remedy: str = "", **fields: Any) -> Finding:
        return Finding.make(self.number, offset, kind, what, remedy, **fields)


EVERY_TYPE = dialect("new", CHECKED_VERSIONS["new"][-1])
SHOWN_BYTES = 16


def refuse_foreign_log(topic: OpenTopic, group_ids: Collection[str]) -> None:
    """Raise ForeignLog if at least one record of the logs has a key, and none has a key of the topic.

    `group_ids` are the groups that a load has found. The logs are read again only if there are none.
    """
    if group_ids:
        return
    sign = ""
    count = 0
    for log in topic.logs:
        for batch in log:
            for record, text in _describe_keys(batch):
                if not text:
                    return
                count += 1
                sign = sign or f"the first one, at offset {record.offset} of {batch.file}, is {text}"
    if sign:
        raise ForeignLog(
            f"{topic.path}: this is not a log of __consumer_offsets: none of its {count} keys is of this topic; {sign}"
        )


def _describe_keys(batch: Batch) -> Iterator[tuple[LogRecord, str]]:
    """Yield each record with a key, and why this is none of the topic; "" if it is one. Markers belong to any topic."""
    for record in list_readable(batch):
        if record.key is None:
            continue
        if batch.is_control:
            name = ControlType.UNKNOWN.name
            with suppress(BadBytes):
                name = decode_control_key(record.key).name
            if name not in (ControlType.COMMIT.name, ControlType.ABORT.name):
                yield record, f"a control record {name}, which no log of this topic has"
            continue
        is_known = False
        with suppress(BadBytes):
            is_known = decode_key(record.key, EVERY_TYPE).type in RECORD_TYPES
        shown = record.key[:SHOWN_BYTES]
        more = "…" if len(record.key) > SHOWN_BYTES else ""
        yield record, "" if is_known else f"the key {shown.hex()}{more} ({str(shown)[2:-1]}{more})"
