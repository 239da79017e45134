"""The JSON of a shard (groups/shard.py), which is the state of one partition in a snapshot.

After a failed load, only the counts, the group ids and the reason of the failure are saved, because the partition is
read again from its start. A simple group that only offset records have created is saved as its id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from kafkagroups.errors import InvalidLog, LoadFailed
from kafkagroups.groups.classic_shard import ClassicShard
from kafkagroups.groups.group import Group, GroupRecord
from kafkagroups.groups.modern_group import AnyGroup
from kafkagroups.groups.new_shard import NewShard
from kafkagroups.groups.offsets import (
    OffsetAndMetadata,
    Offsets,
    PartitionOffsets,
    ReadOnlyOffsets,
    ShardOffsets,
    TopicPartition,
)
from kafkagroups.groups.shard import LoadedPartition, Shard
from kafkagroups.loading.snapshots.json_checks import (
    Schema,
    describe,
    list_of,
    map_of,
    optional,
    read_count,
    read_int32,
    read_int64,
    read_object,
    read_text,
)
from kafkagroups.loading.snapshots.saved_groups import group_to_json, read_group
from kafkagroups.log.damage import Damage
from kafkagroups.log.zeros import Zeros
from kafkagroups.records.dialects import Dialect
from kafkagroups.records.text import uuid_bytes, uuid_text

_DAMAGE: Schema = {
    "file": read_text,
    "position": read_count,
    "offset": read_int64,
    "reason": read_text,
    "bytes_after": optional(read_count),
    "readable_batches_after": optional(read_count),
    "readable_records_after": optional(read_count),
    "groups_after": lambda value: tuple(list_of(read_text)(value)),
}
_ZEROS: Schema = {"file": read_text, "position": read_count, "bytes": read_count, "later_segments": read_count}
_LOADED: Schema = {
    "segments": read_count,
    "batches": read_count,
    "records": read_int64,
    "start_offset": read_int64,
    "next_offset": read_int64,
    "damage": optional(lambda value: Damage(**read_object(value, _DAMAGE))),
    "zeros": optional(lambda value: Zeros(**read_object(value, _ZEROS))),
    "record_offset": optional(read_int64),
}


def shard_to_json(shard: Shard) -> dict[str, Any]:
    """Return the JSON of a shard."""
    content: dict[str, Any] = {
        "loaded": _loaded_to_json(shard.loaded),
        "failure": None,
        "seen_group_ids": list(shard.seen_group_ids),
        "simple_groups": [],
        "groups": [],
        "removed_groups": [],
        "offsets": _offsets_to_json(Offsets()),
    }
    if shard.failure is not None:
        return content | {"failure": _printable(str(shard.failure))}
    simple_ids = [group_id for group_id, group in shard.groups.items() if group == Group(group_id, shard.partition)]
    return content | {
        "simple_groups": simple_ids,
        "groups": [group_to_json(group, shard.dialect) for group in _find_groups_for_json(shard, simple_ids)],
        "removed_groups": list(shard.removed_groups) if isinstance(shard, ClassicShard) else [],
        "offsets": _offsets_to_json(shard.offsets),
    }


def read_shard(content: Any, partition: int | None, dialect: Dialect) -> Shard:
    """Return the shard in JSON."""
    schema: Schema = {
        "loaded": lambda value: LoadedPartition(**read_object(value, _LOADED)),
        "failure": optional(read_text),
        "seen_group_ids": list_of(read_text),
        "simple_groups": list_of(read_text),
        "groups": list_of(lambda value: read_group(value, partition, dialect)),
        "removed_groups": list_of(read_text),
        "offsets": _read_offsets,
    }
    fields = read_object(content, schema)
    shard_class = ClassicShard if dialect.coordinator == "classic" else NewShard
    shard = shard_class(partition, dialect, fields["loaded"], seen_group_ids=dict.fromkeys(fields["seen_group_ids"]))
    shard.groups = {group_id: Group(group_id, partition) for group_id in fields["simple_groups"]}
    shard.groups |= {group.group_id: group for group in fields["groups"]}
    if fields["failure"] is not None:
        shard.failure = LoadFailed(fields["failure"])
    shard.offsets = fields["offsets"]
    if isinstance(shard, ClassicShard):
        shard.removed_groups = dict.fromkeys(fields["removed_groups"])
    return shard


def _find_groups_for_json(shard: Shard, simple_ids: Iterable[str]) -> list[AnyGroup]:
    """Return the groups that are saved as JSON: all except simple groups."""
    groups = shard.groups.copy()
    for group_id in simple_ids:
        del groups[group_id]
    return [group.decode() if isinstance(group, GroupRecord) else group for group in groups.values()]


def _loaded_to_json(loaded: LoadedPartition) -> dict[str, Any]:
    fields = {name: getattr(loaded, name) for name in _LOADED}
    if loaded.damage is not None:
        damage = {name: getattr(loaded.damage, name) for name in _DAMAGE}
        fields["damage"] = damage | {"file": _printable(damage["file"]), "reason": _printable(damage["reason"])}
        fields["damage"]["groups_after"] = list(damage["groups_after"])
    if loaded.zeros is not None:
        zeros = {name: getattr(loaded.zeros, name) for name in _ZEROS}
        fields["zeros"] = zeros | {"file": _printable(zeros["file"])}
    return fields


def _printable(text: str) -> str:
    """Return a text for a message. A byte of a path that is not UTF-8 becomes six characters, such as `\\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


def _offsets_to_json(offsets: ShardOffsets) -> dict[str, Any]:
    return {
        "committed": _groups_to_json(offsets.committed),
        "pending": [[producer_id, _groups_to_json(groups)] for producer_id, groups in offsets.pending.items()],
    }


def _groups_to_json(groups: Mapping[str, ReadOnlyOffsets]) -> dict[str, list[list[Any]]]:
    """Return a row for each offset of each group: the fields of TopicPartition, then those of OffsetAndMetadata."""
    return {
        group_id: [
            [
                *partition,
                offset.offset,
                offset.metadata,
                offset.commit_timestamp,
                offset.leader_epoch,
                offset.expire_timestamp,
                offset.topic_id,
                offset.record_offset,
                offset.batch_offset,
            ]
            for partition, offset in partitions.items()
        ]
        for group_id, partitions in groups.items()
    }


def _read_offsets(value: Any) -> Offsets:
    """Return the offsets of a shard that the readable engine made."""
    fields = read_object(value, {"committed": map_of(_read_rows), "pending": list_of(_read_producer)})
    offsets = Offsets()
    offsets.committed = fields["committed"]
    offsets.pending = dict(fields["pending"])
    return Offsets.copy_of(offsets)


def _read_producer(value: Any) -> tuple[int, dict[str, PartitionOffsets]]:
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidLog(f"expected a producer id and its groups, found {describe(value)}")
    return read_int64(value[0]), map_of(_read_rows)(value[1])


def _read_rows(value: Any) -> PartitionOffsets:
    return dict(_read_row_list(value))


def _read_row(row: Any) -> tuple[TopicPartition, OffsetAndMetadata]:
    if not isinstance(row, list) or len(row) != len(_ROW_READERS):
        raise InvalidLog(f"expected the {len(_ROW_READERS)} fields of an offset, found {describe(row)}")
    fields: list[Any] = [read(value) for read, value in zip(_ROW_READERS, row, strict=True)]
    return TopicPartition(*fields[:2]), OffsetAndMetadata(*fields[2:])


@lru_cache
def _is_topic_id(text: str) -> bool:
    return uuid_text(uuid_bytes(text)) == text


def _read_topic_id(value: Any) -> str:
    try:
        if _is_topic_id(read_text(value)):
            return str(value)
    except ValueError:
        pass
    raise InvalidLog(f"expected a topic id, found {describe(value)}")


_ROW_READERS = (
    read_text,
    read_int32,
    read_int64,
    read_text,
    read_int64,
    read_int32,
    optional(read_int64),
    optional(_read_topic_id),
    read_int64,
    read_int64,
)
"""The fields of TopicPartition, and then those of OffsetAndMetadata."""
_read_row_list = list_of(_read_row)
