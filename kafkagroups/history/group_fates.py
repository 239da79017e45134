"""The fates of one group's records.

The native engine loads a log much faster than the readable engine. It finds the batches of the group on the way, and
the readable engine then replays only these. This gives the same fates, because records of other groups never change the
fate of a group's record. A load that fails is the only exception, and then the readable engine replays the whole log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kafkagroups.groups import fold as readable
from kafkagroups.groups.shard import CountBytes, Shard
from kafkagroups.history.fates import Fates
from kafkagroups.loading import native
from kafkagroups.loading.engines import PYTHON, Engine, create_observed_engine
from kafkagroups.loading.groups import Groups
from kafkagroups.loading.load import OpenTopic, WholeTopic
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.log.holes import Hole
from kafkagroups.log.segments import Log
from kafkagroups.log.stop import Stop
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.wire import MAX_STRING_BYTES

_REPLACEMENT_CHARACTER = "\ufffd"
"""Java's text for bytes that are not UTF-8. So different bytes can be the same group id."""


def load_into(fates: Fates, topic: OpenTopic, whole: WholeTopic | None = None) -> Groups:
    """Load a topic, and add the settled fates of one group's records to `fates`, which is still empty.

    `fates` is an object of Fates or of a subclass with the same arguments. `whole` is the one of `OpenTopic.load`.
    """
    group = fates.wanted_group
    assert group is not None
    if topic.chosen_engine is PYTHON or not _has_one_encoding(group):
        groups = topic.load(engine=create_observed_engine(fates), whole=whole)
    else:
        fates_by_log: dict[int, Fates] = {}
        groups = topic.load(engine=_create_compiled_engine(type(fates), group, fates_by_log), whole=whole)
        for log in topic.logs:
            fates.add(fates_by_log[id(log)])
    fates.settle(groups.groups, groups.orphans, groups.failed)
    return groups


def _has_one_encoding(group: str) -> bool:
    """Return whether the records of a group id all contain the same bytes for it, and a key has room for them."""
    try:
        encoded_id = group.encode()
    except UnicodeEncodeError:  # Half of a surrogate pair.
        return False
    return _REPLACEMENT_CHARACTER not in group and len(encoded_id) <= MAX_STRING_BYTES


def _create_compiled_engine(fates_class: type[Fates], group: str, fates_by_log: dict[int, Fates]) -> Engine:
    """Return a native engine that also stores the fates of a group. The keys are Python's `id` of the logs.

    `fates_class` is the class of the fates: Fates or a subclass.
    """

    def fold(log: Log, dialect: Dialect, stop: Stop, *, count_bytes: CountBytes) -> Shard:
        fates = fates_class(dialect, group)
        fates_by_log[id(log)] = fates
        shard = native.fold_if_possible(log, dialect, stop, group=group, count_bytes=count_bytes)
        if shard is None:
            return readable.fold(log, dialect, stop, count_bytes=count_bytes, observer=fates)
        batches = _observe_batches(native.reading_of(shard), log, dialect, group, fates)
        readable.fold_batches(log.partition, batches, dialect, fates)
        return shard

    return Engine("compiled", fold)


def _observe_batches(reading: Any, log: Log, dialect: Dialect, group: str, fates: Fates) -> Iterator[Batch]:
    """Yield the batches of a group, without the records of other groups. Add each batch and each hole to `fates`."""
    encoded_id = group.encode()
    key_part = len(encoded_id).to_bytes(2, "big") + encoded_id
    places, last_hole = reading.found_batches()
    for (_, _, _, hole), batch in zip(places, native.read_batches_at(log, places), strict=True):
        if hole is not None:
            fates.add_hole(log.partition, Hole(*hole))
        if not batch.is_control:
            batch = select_records(batch, key_part, keeps_first=dialect.coordinator == "classic")
        fates.add_batch(log.partition, batch)
        yield batch
    if last_hole is not None:
        fates.add_hole(log.partition, Hole(*last_hole))


def select_records(batch: Batch, key_part: bytes, *, keeps_first: bool) -> Batch:
    """Return a batch with only the records whose key has `key_part` after the record type.

    `keeps_first` also keeps the first record: the classic coordinator compares the offsets of the first records.
    """

    def parse_records(_: Batch) -> tuple[LogRecord, ...]:
        return tuple(
            record
            for index, record in enumerate(batch.records)
            if (keeps_first and index == 0) or (record.key or b"").startswith(key_part, 2)
        )

    return replace(batch, parse_records=parse_records)
