"""The life of a group or of one of its offsets (`explain`): its records and its answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kafkagroups.errors import UsageError
from kafkagroups.groups.observer import Fate
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.history.fates import Fates
from kafkagroups.history.record_fate import RecordFate
from kafkagroups.loading.engines import create_observed_engine
from kafkagroups.loading.load import load_logs
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import NO_STOP, Stop
from kafkagroups.records.versions import Dialect
from kafkagroups.tables.group_json import group_json
from kafkagroups.tables.offset_fields import offset_json


@dataclass
class Explanation:
    """The history of a group, or of one of its offsets.

    Attributes
    ----------
    group, coordinator, kafka
        The group, and whose rules were applied.
    history
        The records that touched it, in the order of the log.
    answer
        What a broker answers now, as in `load --json`; None if it answers nothing.
    waiting
        The commits whose transaction is open. To a client that asks for stable offsets, a broker answers
        UNSTABLE_OFFSET_COMMIT.
    problems
        One line for each partition whose bytes are damaged or whose load fails.
    next_offsets
        The first offset after the batches that were read, of each partition with such batches.
    """

    group: str
    coordinator: str
    kafka: str = ""
    history: list[RecordFate] = field(default_factory=list)
    answer: Any = None
    waiting: list[RecordFate] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    next_offsets: dict[int | None, int] = field(default_factory=dict)


def choose_offset(topic: str | None, partition: int | None) -> TopicPartition | None:
    """Return the offset that a topic and a partition name; None if both are missing. UsageError if one is."""
    if topic is None and partition is None:
        return None
    if topic is None or partition is None:
        raise UsageError("a topic and a partition together name an offset: give both or none")
    return TopicPartition(topic, partition)


def explain_group(
    logs: Iterable[Log],
    rules: Dialect,
    group: str,
    offset: TopicPartition | None = None,
    *,
    path: str = "",
    partitions: int | None = None,
    stop: Stop = NO_STOP,
) -> Explanation:
    """Load logs and return the history of a group, or of one of its offsets."""
    fates = Fates(rules, group)
    groups = load_logs(logs, rules, path, partitions=partitions, stop=stop, engine=create_observed_engine(fates))
    fates.settle(groups.groups, groups.orphans, groups.failed)
    known = groups.get(group)
    answer: Any = None
    if offset is None:
        history = list(fates)
        if known is not None:
            answer = group_json(known)
    else:
        history = fates.records_of(offset)
        if known is not None and offset in known.offsets:
            answer = offset_json(known.offsets[offset])
    waiting = [entry for entry in history if entry.fate is Fate.PENDING]
    ends = {number: loaded.next_offset for number, loaded in groups.partitions.items() if loaded.batches}
    return Explanation(group, rules.coordinator, rules.kafka, history, answer, waiting, groups.problems, ends)
