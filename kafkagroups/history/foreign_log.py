"""Refuses logs that are no logs of `__consumer_offsets`, for example of an ordinary topic or of KRaft's metadata.

A coordinator that loads such a log skips most of its records, so every question would have an answer, and every finding
a remedy that damages a log that is fine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kafkagroups.errors import BadBytes, ForeignLog
from kafkagroups.history.passes import list_readable
from kafkagroups.loading.load import OpenTopic
from kafkagroups.log.batch import Batch, LogRecord
from kafkagroups.records.control import ControlType, decode_control_key
from kafkagroups.records.dialects import CHECKED_VERSIONS, dialect
from kafkagroups.records.record_types import RECORD_TYPES
from kafkagroups.records.serde import decode_key

_EVERY_TYPE = dialect("new", CHECKED_VERSIONS["new"][-1])
SHOWN_BYTES = 16


def refuse_foreign_log(topic: OpenTopic, group_ids: Collection[str]) -> None:
    """Raise ForeignLog if at least one record of the logs has a key, and none has a key of the topic.

    `group_ids` are the groups that a load of the logs has found. The logs are read again only if there are none.
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
            name = _name_control(record.key)
            if name not in (ControlType.COMMIT.name, ControlType.ABORT.name):
                yield record, f"a control record {name}, which no log of this topic has"
            continue
        try:
            is_known = decode_key(record.key, _EVERY_TYPE).type in RECORD_TYPES
        except BadBytes:
            is_known = False
        shown = record.key[:SHOWN_BYTES]
        more = "…" if len(record.key) > SHOWN_BYTES else ""
        yield record, "" if is_known else f"the key {shown.hex()}{more} ({str(shown)[2:-1]}{more})"


def _name_control(key: bytes) -> str:
    try:
        return decode_control_key(key).name
    except BadBytes:
        return ControlType.UNKNOWN.name
