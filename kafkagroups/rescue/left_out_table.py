"""The commits that are left out, found in the table `fates`. The native engine fills this table without an object per
record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.fate_table import read_fate_table
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic
from kafkagroups.records.dialects import Dialect
from kafkagroups.rescue.left_out import Commit, LeftOutByGroup, RecordKey, choose_left_out
from kafkagroups.tables.columns import columns_of

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = (
    *("partition", "offset", "group", "topic", "topic_partition"),
    *("committed_offset", "transactional", "producer_id", "fate"),
)
_LEFT_OUT_FATES = (Fate.PENDING, Fate.ABORTED, Fate.HIDDEN, Fate.IGNORED)
_NO_PARTITION = -1
"""The number of a partition in the table if the name of the log's folder has no number."""


def find_left_out(topic: OpenTopic, groups: Groups) -> LeftOutByGroup:
    """Return the commits that are left out, as LeftOutCommits.find does. `groups` is the result of the load.

    The logs are loaded again, up to two times. The memory does not depend on the number of records, except those of the
    commits that can be left out.
    """
    import pyarrow.compute as pc

    def read_batches() -> Iterator[pa.RecordBatch]:
        columns = columns_of("fates", _COLUMNS)
        for batch in read_fate_table(topic, columns):
            yield batch.filter(pc.is_valid(batch.column("topic")))

    names = [fate.value for fate in _LEFT_OUT_FATES]
    commits: list[Commit] = []
    for batch in read_batches():
        is_candidate = pc.and_(_is_in(batch, "fate", names), pc.is_valid(batch.column("committed_offset")))
        for row in batch.filter(is_candidate).to_pylist():
            commits.append(Commit(_key_of(row), row["offset"], row["committed_offset"], Fate(row["fate"])))
    keys = {commit.key for commit in commits if commit.fate in (Fate.ABORTED, Fate.IGNORED)}
    newest_effects: dict[RecordKey, int] = {}
    if keys:
        group_ids = sorted({key.group for key in keys})
        for batch in read_batches():
            for row in batch.filter(_is_in(batch, "group", group_ids)).to_pylist():
                key = _key_of(row)
                if key in keys and _takes_effect(row, topic.dialect):
                    newest_effects[key] = max(row["offset"], newest_effects.get(key, row["offset"]))
    return choose_left_out(commits, newest_effects, groups)


def _is_in(batch: pa.RecordBatch, column: str, values: list[str]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.is_in(batch.column(column), value_set=pa.array(values, type=batch.schema.field(column).type))


def _takes_effect(row: dict[str, Any], dialect: Dialect) -> bool:
    """Return whether a record took effect: it was in no transaction, or its transaction was committed."""
    has_transaction = row["transactional"] if dialect.coordinator == "classic" else row["producer_id"] is not None
    return not has_transaction or row["fate"] == Fate.WINS.value


def _key_of(row: dict[str, Any]) -> RecordKey:
    partition = None if row["partition"] == _NO_PARTITION else row["partition"]
    return RecordKey(partition, row["group"], TopicPartition(row["topic"], row["topic_partition"]))
