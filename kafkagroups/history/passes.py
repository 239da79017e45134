"""The two passes over a log, the base of the rules that find something wrong, and the refusal of foreign logs.

The first pass is a load that is observed. It decides what the second pass must look at, for example the producers whose
transaction is still open. If all followers of the second pass name their producers, the native engine finds the
batches; otherwise the log is read in plain Python.

A rule is a function of what the first pass has counted and loaded; one that needs batches as well is a `Follower`.

A coordinator skips most records of an ordinary topic or of KRaft's metadata, so a finding about such a log would have a
remedy that damages a log that is fine. Therefore it is refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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


class Follower:
    """What a second pass feeds: batches from `first_offset` to the one that begins at `last_offset`.

    `producers` are the ids of the producers whose batches it gets. None: all batches. Empty: it needs no pass.
    """

    producers: Collection[int] | None = ()
    first_offset = MIN_INT64
    last_offset = MAX_INT64

    def follow(self, batch: Batch) -> None:
        """Take the next batch. Its records can be unreadable."""

    def find(self) -> Iterable[Finding]:
        """Return the findings after the last batch. A follower that only counts has none."""
        return ()


def list_readable(batch: Batch) -> tuple[LogRecord, ...]:
    """The records of a batch; none if they cannot be read, which the load has found, too."""
    try:
        return batch.records
    except BadBytes:
        return ()


def read_again(log: Log, followers: Sequence[Follower], engine: Engine) -> None:
    """Read a log for followers. Segments that none of them needs are not opened."""
    active = [follower for follower in followers if follower.producers is None or follower.producers]
    if not active:
        return
    bases = [base_offset_of(segment) for segment in log.segments]
    last_offset = max(follower.last_offset for follower in active)
    # A transaction can begin right after the end of another one, which is in the segment before.
    first = max(0, bisect_right(bases, min(follower.first_offset for follower in active)) - 2)
    end = max(1, bisect_right(bases, last_offset))
    part = log.select_ranges({segment: log.ranges.get(segment, WHOLE_FILE) for segment in log.segments[first:end]})
    part.skips_damage = log.skips_damage
    reading = None
    if engine.name == "compiled" and all(follower.producers is not None for follower in active):
        producers = {number for follower in active for number in follower.producers or ()}
        stop = Stop(until_offset=last_offset + 1)
        reading = native.read_if_possible(part, DEFAULT_DIALECT, stop, producers=producers)
    for batch in part if reading is None else native.read_batches_at(part, reading.found_batches()[0]):
        if batch.base_offset > last_offset:
            return
        for follower in active:
            is_wanted = follower.producers is None or batch.producer_id in follower.producers
            if is_wanted and batch.base_offset <= follower.last_offset:
                follower.follow(batch)


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
    `commits` counts the offset records with a value. `returned` are groups that committed to a topic again after all
    their offsets of it were deleted, once or twice. `misplaced` are its groups that belong to other partitions.
    """

    log: Log
    dialect: Dialect
    groups: Groups
    loaded: LoadedPartition
    parts: Mapping[str, GroupParts]
    totals: Totals
    counts: PartitionStats
    by_group: Mapping[str, Count]
    commits: Counter[str]
    returned: set[str]
    misplaced: Misplaced | None = None

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
            f"{topic.path}: this is not a log of __consumer_offsets: none of its {count} records with a key has a key "
            f"of this topic; {sign}"
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
