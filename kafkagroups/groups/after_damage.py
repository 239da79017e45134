"""What follows damaged bytes in a log: how many bytes, how many readable batches, and records of which groups."""

from __future__ import annotations

from dataclasses import replace

from kafkagroups.groups.log_records import LogKeys, find_group_ids
from kafkagroups.log.batch import record_count
from kafkagroups.log.damage import Damage
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import Dialect


def describe_rest(log: Log, damage: Damage | None, dialect: Dialect) -> Damage | None:
    """Return the damage of a log, with what follows it. Return None if there is no damage.

    The batches are those that a reader with `Log.skip_damage` finds. Records that cannot be read name no group.
    """
    if damage is None:
        return None
    batch_count = 0
    total_records = 0
    group_ids: set[str] = set()
    rest = log.select_after(damage)
    if rest is not None:
        keys = LogKeys(dialect)
        for batch in rest.skip_damage():
            batch_count += 1
            total_records += record_count(batch)
            group_ids.update(find_group_ids(batch, keys))
    return replace(
        damage,
        bytes_after=log.count_bytes_from(damage),
        readable_batches_after=batch_count,
        readable_records_after=total_records,
        groups_after=tuple(sorted(group_ids)),
    )
