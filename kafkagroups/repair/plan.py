"""A rescue plan: the groups of a log, their committed offsets, and what was left out and why.

The plan is a file of JSON that people may edit, and `apply_rescue` commits its offsets to another cluster. A typing
error must not silently change what is committed, so unknown, missing and repeated fields and values of a wrong type are
errors. Only fields that inform people can be missing or null.

A planned offset is only useful if the records of its topic have kept their offsets: because the topic's files were
copied, or by a tool that keeps offsets, as MirrorMaker does not.
"""

from __future__ import annotations

import json
import os
import reprlib
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from kafkagroups.errors import UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.helpers import MAX_INT32, MAX_INT64, MIN_INT32, MIN_INT64
from kafkagroups.loading.partition_count import TopicPartitions
from kafkagroups.log.folders import new_file
from kafkagroups.log.segment_file import check_regular
from kafkagroups.records.wire import MAX_STRING_BYTES

PLAN_VERSION = 1
MAX_PLAN_BYTES = 1 << 30
"""A larger file is not a plan."""
_Int32 = Annotated[int, Meta(ge=MIN_INT32, le=MAX_INT32)]
_Int64 = Annotated[int, Meta(ge=MIN_INT64, le=MAX_INT64)]
S = TypeVar("S", bound=Struct)


class Why(Enum):
    """Why a commit is not in the plan, or why the broker does not have a group.

    If there are several reasons for a topic partition, the first one counts.

    FILTERED: the topic does not match the patterns of topics.
    OLD_TOPIC: the topic was created again after the time of the plan, so the offset is one of another topic; if that is
    not certain, the plan has the offset, too.
    PENDING: the transaction of the commit is open, so it was not known yet whether the commit would take effect.
    ABORTED: the transaction of the commit was aborted, and no later record of the topic partition took effect.
    HIDDEN: a tombstone deleted the group. The broker kept the offset in memory, but did not return it.
    SHARE_GROUP: a share group has its progress in `__share_group_state`.
    OTHER_PARTITION: the record is in a partition of `__consumer_offsets` that did not answer for the group.
    LOAD_FAILED: the load of the partition fails, so that the broker did not use the record.
    IGNORED: the coordinator did not use the record for another reason.
    UNREADABLE: the coordinator cannot read the commit, so its offset is not known, and the load of the partition fails.
    NO_GROUP: only of a group. It was deleted, or its records are of types that the coordinator skips.
    """

    FILTERED = "filtered"
    OLD_TOPIC = "old topic"
    PENDING = "pending"
    ABORTED = "aborted"
    HIDDEN = "hidden"
    SHARE_GROUP = "share group"
    OTHER_PARTITION = "other partition"
    LOAD_FAILED = "load failed"
    IGNORED = "ignored"
    UNREADABLE = "unreadable"
    NO_GROUP = "no group"


class PlannedOffset(Struct, frozen=True, forbid_unknown_fields=True):
    """A committed offset of the plan.

    `apply_rescue` commits `offset` and `metadata`, and never the `leader_epoch` of the commit, because another cluster
    has other epochs.
    """

    offset: _Int64
    metadata: str = ""
    leader_epoch: _Int32 = -1
    partition: _Int32 | None = None
    record_offset: _Int64 | None = None


class LeftOut(Struct, frozen=True, forbid_unknown_fields=True):
    """A commit that is not in the plan, and why.

    `offset` is None if it cannot be read, and for a share group, whose offsets are in another topic.
    """

    why: Why
    offset: _Int64 | None = None
    partition: _Int32 | None = None
    record_offset: _Int64 | None = None


class GroupPlan(Struct, kw_only=True, forbid_unknown_fields=True):
    """The plan of one group, whose id in the other cluster is `to`.

    `type` and `state` are those of `load --json`; `why` says why the broker did not have the group. `offsets` are
    exactly those that `load` returns, except those of other topics or of old ones. `left_out` are the other commits: a
    topic-partition can be in both, for example if a newer commit was pending.
    """

    to: str
    type: str | None = None
    state: str | None = None
    why: Why | None = None
    offsets: dict[TopicPartition, PlannedOffset]
    left_out: dict[TopicPartition, LeftOut] = {}

    def to_json(self) -> dict[str, Any]:
        offsets = {key.as_input: offset for key, offset in sorted(self.offsets.items())}
        left_out = {key.as_input: entry for key, entry in sorted(self.left_out.items())}
        fields = msgspec.structs.asdict(self) | {"offsets": offsets, "left_out": left_out}
        return dict(msgspec.to_builtins(fields))


@dataclass(slots=True)
class RescuePlan:
    """A plan to restore groups and their offsets in another cluster, made with the rules of `coordinator` and `kafka`.

    `groups` has the plan of each group that a record of the log names, by the group's id in the log. `made_from` says
    where the plan comes from: the path, the patterns, and the problems of the log; `apply_rescue` ignores it.
    `topic_partitions` is the partition count of the log's topic, and how it was found; None for a plan from a file.
    """

    coordinator: str
    kafka: str
    made_from: Any = None
    groups: dict[str, GroupPlan] = field(default_factory=dict)
    topic_partitions: TopicPartitions | None = field(default=None, repr=False, compare=False)

    @property
    def problems(self) -> list[str]:
        return self._read_origin("problems")

    @property
    def other_groups(self) -> list[str]:
        return self._read_origin("other_groups")

    @property
    def proposed_ids(self) -> dict[str, str]:
        """Ids for the groups whose home partition does not load, if they have to come back on the same cluster.

        The home partition of each id is healthy, as far as the log shows.
        """
        ids = self.made_from.get("proposed_ids") if isinstance(self.made_from, dict) else None
        return ids if isinstance(ids, dict) else {}

    def _read_origin(self, name: str) -> list[str]:
        lines = self.made_from.get(name) if isinstance(self.made_from, dict) else None
        return [str(line) for line in lines] if isinstance(lines, list) else []

    def to_json(self) -> dict[str, Any]:
        return {
            "kafkagroups_plan": PLAN_VERSION,
            "coordinator": self.coordinator,
            "kafka": self.kafka,
            "made_from": self.made_from,
            "groups": {group_id: self.groups[group_id].to_json() for group_id in sorted(self.groups)},
        }


class _PlanFields(Struct, forbid_unknown_fields=True):
    kafkagroups_plan: Literal[1]
    coordinator: Literal["classic", "new"]
    kafka: str
    groups: dict[str, Any]
    made_from: Any = None


def write_plan(plan: RescuePlan, path: str | Path) -> None:
    """Write a plan to a new file. Raises UsageError if the file exists or cannot be written."""
    text = json.dumps(plan.to_json(), indent=2) + "\n"
    try:
        with new_file(Path(path)) as file:
            file.write(text.encode("ascii"))
    except FileExistsError:
        raise UsageError(f"{path}: this file exists, and a plan never overwrites a file: choose another name") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None


def read_plan(path: str | Path) -> RescuePlan:
    """Return the plan in a file. Raises UsageError with the place of the first error."""
    try:
        status = os.stat(path)
        check_regular(status, str(path))
        if status.st_size > MAX_PLAN_BYTES:
            raise UsageError(f"{path}: expected a plan of at most {MAX_PLAN_BYTES} bytes")
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    try:
        return parse_plan(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def parse_plan(data: bytes) -> RescuePlan:
    try:
        value = json.loads(data.decode(), object_pairs_hook=_build_object)
    except RecursionError:
        raise UsageError("expected JSON with few levels, found too many") from None
    except ValueError as error:
        raise UsageError(f"expected JSON in UTF-8: {error}") from None
    fields = _convert(value, _PlanFields, "")
    groups = {}
    for group_id, content in fields.groups.items():
        _check_name(group_id, "groups")
        groups[group_id] = _read_group(content, f"groups[{reprlib.repr(group_id)}]")
    return RescuePlan(fields.coordinator, fields.kafka, fields.made_from, groups)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"the field {reprlib.repr(repeated)} occurs twice in one object")
    return fields


def _read_group(value: Any, place: str) -> GroupPlan:
    if isinstance(value, dict):
        value = dict(value)
        for name, struct in (("offsets", PlannedOffset), ("left_out", LeftOut)):
            if isinstance(value.get(name), dict):
                value[name] = _read_map(value[name], struct, f"{place}.{name}")
    return _convert(value, GroupPlan, place)


def _read_map(values: dict[str, Any], struct: type[S], place: str) -> dict[TopicPartition, S]:
    entries = {}
    for name, value in values.items():
        _check_name(name, place)
        try:
            key = TopicPartition.parse(name)
        except UsageError as error:
            raise UsageError(f"{place}: {error}") from None
        entries[key] = _convert(value, struct, f"{place}[{reprlib.repr(name)}]")
    return entries


def _convert(value: Any, struct: type[S], place: str) -> S:
    try:
        if isinstance(value, dict):
            optional = [each.name for each in msgspec.structs.fields(struct) if not each.required]
            value = {name: part for name, part in value.items() if part is not None or name not in optional}
        converted = msgspec.convert(value, struct)
    except msgspec.ValidationError as error:
        reason, _, inner_place = str(error).partition(" - at `$")
        where = f"{place}{inner_place}".strip(".`")
        raise UsageError(f"{where}: {reason}" if where else reason) from None
    for name, part in value.items():
        if isinstance(part, str):
            _check_name(part, f"{place}.{name}".strip("."))
    return converted


def _check_name(text: str, place: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UsageError(f"{place}: expected text that UTF-8 can encode, found {reprlib.repr(text)}") from None
    if size > MAX_STRING_BYTES:
        raise UsageError(f"{place}: expected at most {MAX_STRING_BYTES} bytes, found {size}")


def check_targets(plan: RescuePlan) -> None:
    origins: dict[str, str] = {}
    for group_id, group in sorted(plan.groups.items()):
        other = origins.setdefault(group.to, group_id) if group.offsets else group_id
        if other != group_id:
            raise UsageError(f"the groups {other!r} and {group_id!r} would both become {group.to!r}")


def find_ambiguous(plan: RescuePlan) -> list[str]:
    keys = sorted({key for group in plan.groups.values() for key in group.offsets})
    return [f"{key} is read as {key.reading}" for key in keys if key.partition >= 0 and key.reading]
