"""Advances the state of one partition: applies the new batches of a log to a copy of the partition's shard.

A shard is the state of a partition (groups/shard.py). To fold batches means to apply their records, one after another,
to a shard. A saved shard is the state before the last step of the load, which decides which groups exist
(loading/caches.py). In this state, transactions can still be open. So the advanced shard is the same as the shard of
the whole log.

The readable engine advances a shard, whichever engine has made it. An incomplete batch at the end of the log is read
when it is complete. If the load of a partition has failed, the partition is read again from its start, and also if
damage is in an earlier segment than the next offset.

Snapshots need the rules of Kafka 0.10.1 or newer, because older versions keep offsets in a separate cache.
"""

from __future__ import annotations

from dataclasses import replace

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.groups import fold as readable
from kafkagroups.groups.after_damage import describe_rest
from kafkagroups.groups.classic_shard import has_separate_offset_cache
from kafkagroups.groups.shard import Shard
from kafkagroups.loading import native
from kafkagroups.loading.engines import PYTHON, Engine
from kafkagroups.log.damage import Damage
from kafkagroups.log.position import Position
from kafkagroups.log.segment_file import ByteRange, base_offset_of
from kafkagroups.log.segments import Log, Notes
from kafkagroups.log.zeros import Zeros
from kafkagroups.records.dialects import Dialect

NO_BYTES = ByteRange(0, 0)


def advance_shard(shard: Shard | None, log: Log, dialect: Dialect, engine: Engine) -> Shard:
    """Return a new shard that also contains the log's batches from the shard's next offset on.

    `shard` is not changed. It is None for a partition that was not read yet. `engine` is used only if `shard` is None
    or if the load of the partition has failed. Raise UsageError if the log ends before the next offset of the shard.
    """
    if has_separate_offset_cache(dialect):
        raise UsageError(
            f"snapshots need Kafka 0.10.1 or newer: Kafka {dialect.kafka} keeps offsets in a separate cache"
        )
    if shard is None or shard.failure is not None or _is_damaged_earlier(shard, log):
        return _fold_whole(log, dialect, engine)
    notes = Notes()
    new_log, damage_after = _select_complete_batches(log, shard.loaded.next_offset, notes)
    damage_after = describe_rest(log, damage_after, dialect)
    if new_log is None:
        zeros = _find_zeros(log, shard, damage_after, notes.zeros)
        loaded = replace(shard.loaded, segments=len(log.segments), damage=damage_after, zeros=zeros)
        return replace(shard, loaded=loaded)
    advanced = readable.fold(new_log, dialect, base=shard)
    advanced.loaded.segments = len(log.segments)
    advanced.loaded.damage = describe_rest(log, new_log.damage, dialect) or damage_after
    advanced.loaded.zeros = _find_zeros(log, shard, advanced.loaded.damage, notes.zeros)
    return advanced


def _is_damaged_earlier(shard: Shard, log: Log) -> bool:
    """Return whether the damage of a shard is in a segment before the one that contains the shard's next offset.

    The names of segments in an odd log can promise offsets that an earlier, damaged segment also has.
    """
    if shard.loaded.damage is None:
        return False
    next_segment = log.segments[log.find_segment(Position(shard.loaded.next_offset))]
    return base_offset_of(shard.loaded.damage.file) < base_offset_of(next_segment)


def _fold_whole(log: Log, dialect: Dialect, engine: Engine) -> Shard:
    """Return the shard of a log that is folded from its start.

    If `engine` cannot fold the whole log, try the log without the incomplete batch at its end. This batch will be
    complete later. So the batch should not decide which engine reads the partition from now on.
    """
    if engine is PYTHON:
        return readable.fold(log, dialect)
    shard = native.fold_if_possible(log, dialect)
    if shard is not None:
        return shard
    notes = Notes()
    complete_log, damage_after = _select_complete_batches(log, None, notes)
    shard = native.fold_if_possible(complete_log, dialect) if damage_after and complete_log else None
    if shard is None:
        return readable.fold(log, dialect)
    shard.loaded.segments = len(log.segments)
    shard.loaded.damage = describe_rest(log, damage_after, dialect)
    shard.loaded.zeros = notes.zeros
    return shard


def _find_zeros(log: Log, shard: Shard, damage: Damage | None, zeros: Zeros | None) -> Zeros | None:
    """Return the zeros at the end of the first segment that ends with zeros.

    The log was read from the end of `shard` on, and `damage` ended it. The shard knows the zeros of earlier segments.
    `zeros` were found without a check of checksums, so they can be after the damage.
    """
    first_read = log.find_segment(Position(shard.loaded.next_offset))
    earlier_zeros = shard.loaded.zeros
    segment_of_base = {base_offset_of(segment): segment for segment in log.segments[:first_read]}
    segment = segment_of_base.get(base_offset_of(earlier_zeros.file)) if earlier_zeros else None
    if earlier_zeros and segment:
        # A broker that begins a new segment cuts the reserved space off the old one.
        zero_count = log.segment_size(segment) - earlier_zeros.position
        if zero_count > 0:
            return log.describe_zeros(segment, earlier_zeros.position, zero_count)
    if zeros and damage and _place_in(log, zeros) > _place_in(log, damage):
        return None
    return zeros


def _place_in(log: Log, found: Zeros | Damage) -> tuple[int, int]:
    return log.segments.index(found.file), found.position


def _select_complete_batches(log: Log, first_offset: int | None, notes: Notes) -> tuple[Log | None, Damage | None]:
    """Return a log with only the complete batches from a Kafka offset on, and the damage after these batches.

    A batch is in the new log if it contains `first_offset` or a later offset. If `first_offset` is None, all complete
    batches are in the new log. The new log is None if it would contain no batch. The damage is None if nothing is
    damaged; an incomplete batch at the end counts as damage. `notes` gets the zeros. Raise UsageError if `log` ends
    before `first_offset`.
    """
    position = None if first_offset is None else Position(first_offset)
    start_offset = log.start_offset if first_offset is None else first_offset
    end = start_offset
    ranges: dict[str, ByteRange] = {}
    damage = None
    try:
        for batch in log.find_batches(position, notes):
            segment = batch.segment
            end = batch.frame.next_offset
            if segment in ranges:
                ranges[segment] = ranges[segment]._replace(end=batch.frame.end)
            elif first_offset is None or end > first_offset:
                ranges[segment] = ByteRange(batch.frame.position, batch.frame.end)
    except InvalidLog as error:
        damage = log.describe_damage(error, end)
    if first_offset is not None and end < first_offset and not damage:
        raise UsageError(
            f"{log.path}: the log ends at offset {end}; a snapshot taken at offset {first_offset} is of another log"
        )
    if not ranges:
        return None, damage
    # Later segments stay in the log even if they contain no new batch, because a message about damage counts them.
    first_segment = log.segments.index(next(iter(ranges)))
    all_ranges = {segment: ranges.get(segment, NO_BYTES) for segment in log.segments[first_segment:]}
    return log.select_ranges(all_ranges, start_offset), damage
