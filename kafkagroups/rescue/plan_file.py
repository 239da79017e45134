"""The file of a rescue plan: it is written once, people may edit it, and it is checked strictly when it is read.

An unknown field, a missing field and a value of a wrong type are errors. So a typing error in the file cannot silently
change what is committed. Fields that only inform people can be missing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkagroups.errors import InvalidLog, UsageError
from kafkagroups.groups.offsets import TopicPartition
from kafkagroups.loading.snapshots.json_checks import (
    Reader,
    choice_of,
    describe,
    exactly,
    map_of,
    optional,
    read_int32,
    read_int64,
    read_object,
    read_text,
)
from kafkagroups.records.wire import MAX_STRING_BYTES
from kafkagroups.regular_files import check_regular
from kafkagroups.rescue.plan import PLAN_VERSION, GroupPlan, LeftOut, PlannedOffset, RescuePlan, Why

MAX_PLAN_BYTES = 1 << 30
"""The largest size of a plan. A larger file is not a plan."""
_TOPIC_PARTITION = re.compile(r"(?P<topic>.*)-(?P<partition>0|[1-9][0-9]{0,9})", re.DOTALL)
_MAX_PARTITION = (1 << 31) - 1


def write_plan(plan: RescuePlan, path: str | Path) -> None:
    """Write a plan to a new file. Raises UsageError if the file exists or cannot be written."""
    text = json.dumps(plan.to_json(), indent=2) + "\n"
    try:
        with open(path, "x", encoding="ascii") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path}: this file exists, and a plan never overwrites a file: choose another name") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None


def read_plan(path: str | Path) -> RescuePlan:
    """Return the plan in a file. Raises UsageError with the place of the first error."""
    try:
        check_regular(os.stat(path), str(path))
        with open(path, "rb") as file:
            data = file.read(MAX_PLAN_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    if len(data) > MAX_PLAN_BYTES:
        raise UsageError(f"{path}: expected a plan of at most {MAX_PLAN_BYTES} bytes")
    try:
        return parse_plan(data)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def parse_plan(data: bytes) -> RescuePlan:
    """Return the plan in the JSON of a file. Raises UsageError with the place of the first error."""
    try:
        return build_plan(json.loads(data.decode(), object_pairs_hook=_build_object))
    except InvalidLog as error:
        raise UsageError(str(error)) from None
    except RecursionError:
        raise UsageError("expected JSON with few levels, found too many") from None
    except ValueError as error:
        raise UsageError(f"expected JSON in UTF-8: {error}") from None


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidLog(f"the field {describe(repeated)} occurs twice in one object")
    return fields


def build_plan(value: Any) -> RescuePlan:
    """Return the plan in a JSON value. Raises InvalidLog with the place of the first error."""
    fields = _read_fields(
        value,
        {
            "kafkagroups_plan": exactly(PLAN_VERSION),
            "coordinator": choice_of("classic", "new"),
            "kafka": read_text,
            "groups": _map_of_names(_read_group),
        },
        {"made_from": lambda origin: origin},
    )
    return RescuePlan(fields["coordinator"], fields["kafka"], fields["made_from"], fields["groups"])


def _read_group(value: Any) -> GroupPlan:
    fields = _read_fields(
        value,
        {"to": read_name, "offsets": _map_of_partitions(_read_offset)},
        {
            "type": optional(read_text),
            "state": optional(read_text),
            "why": optional(choice_of(*(why.value for why in Why))),
            "left_out": optional(_map_of_partitions(_read_left_out)),
        },
    )
    why = None if fields["why"] is None else Why(fields["why"])
    return GroupPlan(fields["to"], fields["type"], fields["state"], why, fields["offsets"], fields["left_out"] or {})


def _read_offset(value: Any) -> PlannedOffset:
    fields = _read_fields(
        value,
        {"offset": read_int64},
        {
            "metadata": optional(read_name),
            "leader_epoch": optional(read_int32),
            "partition": optional(read_int32),
            "record_offset": optional(read_int64),
        },
    )
    leader_epoch = -1 if fields["leader_epoch"] is None else fields["leader_epoch"]
    return PlannedOffset(
        fields["offset"], fields["metadata"] or "", leader_epoch, fields["partition"], fields["record_offset"]
    )


def _read_left_out(value: Any) -> LeftOut:
    fields = _read_fields(
        value,
        {"why": choice_of(*(why.value for why in Why))},
        {"offset": optional(read_int64), "partition": optional(read_int32), "record_offset": optional(read_int64)},
    )
    return LeftOut(Why(fields["why"]), fields["offset"], fields["partition"], fields["record_offset"])


def _read_fields(value: Any, required: Mapping[str, Reader[Any]], others: Mapping[str, Reader[Any]]) -> dict[str, Any]:
    """Return the checked fields of an object. A field of `others` that is missing is null."""
    if isinstance(value, dict):
        value = dict.fromkeys(others) | value
    return read_object(value, {**required, **others})


def read_name(value: Any) -> str:
    """Return a text that Kafka's protocol can contain: UTF-8, and not longer than a string's 2-byte length says."""
    text = read_text(value)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidLog(f"expected text that UTF-8 can encode, found {describe(value)}") from None
    if size > MAX_STRING_BYTES:
        raise InvalidLog(f"expected at most {MAX_STRING_BYTES} bytes, found {size}")
    return text


def _map_of_names(read: Reader[Any]) -> Reader[dict[str, Any]]:
    """Return a reader of objects whose keys are group ids."""

    def read_values(value: Any) -> dict[str, Any]:
        values = map_of(read)(value)
        for name in values:
            read_name(name)
        return values

    return read_values


def _map_of_partitions(read: Reader[Any]) -> Reader[dict[TopicPartition, Any]]:
    """Return a reader of objects whose keys are topic partitions, such as orders-0."""

    def read_values(value: Any) -> dict[TopicPartition, Any]:
        return {parse_topic_partition(key): content for key, content in map_of(read)(value).items()}

    return read_values


def parse_topic_partition(text: str) -> TopicPartition:
    """Return the topic partition in a text such as orders-0. Raises InvalidLog if there is none."""
    match = _TOPIC_PARTITION.fullmatch(read_name(text))
    if match is None or int(match["partition"]) > _MAX_PARTITION:
        raise InvalidLog(f"expected a topic and a partition such as orders-0, found {describe(text)}")
    return TopicPartition(match["topic"], int(match["partition"]))
