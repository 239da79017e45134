"""The records behind the first failure that would also stop the load of a partition.

A broker's load ends at the first record that it refuses. If only this record is removed, the next load can end at
another one. So each failing record is left out, and the load goes on with the record after it. A record that fails only
because an earlier failing record is left out is found as well: without the earlier one, the load does end there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from kafkagroups.errors import BadBytes, InvalidLog, LoadFailed
from kafkagroups.groups.fold import create_shard
from kafkagroups.groups.log_records import LogKeys, find_group_ids
from kafkagroups.history.event import count_of
from kafkagroups.history.finding import Finding, join_words
from kafkagroups.log.batch import Batch
from kafkagroups.log.segments import Log
from kafkagroups.records.dialects import CHECKED_VERSIONS, Dialect, dialect

KIND = "further_failure"
MAX_SIZE_TO_SEARCH = 64 * 2**20
"""The largest log, in bytes, that is searched behind the first failure. The readable engine needs about 10 s for it."""
MAX_FURTHER = 19
"""How many records are named behind the first one."""


class FailingRecord(NamedTuple):
    """A record that stops a load: its Kafka offset, the reason, and the group that its key names, if it names one."""

    offset: int
    reason: str
    group: str | None


def find_failing_records(log: Log, rules: Dialect) -> Iterator[FailingRecord]:
    """Yield every record of a log at which a load ends, if the failing records before it are left out."""
    shard = create_shard(log, rules)
    for batch in log:
        rest: Batch | None = batch
        while rest is not None:
            try:
                shard.replay([rest])
                break
            except (LoadFailed, BadBytes) as error:
                offset = rest.base_offset if error.offset is None else error.offset
                yield FailingRecord(offset, _describe_error(error), _find_group(rest, offset))
                rest = _select_after(rest, offset)


def _describe_error(error: LoadFailed | BadBytes) -> str:
    """Return why a record stops the load, without its file and its offset."""
    if isinstance(error, LoadFailed) or error.field is None:
        return error.reason
    return f"{error.field}: {error.reason}"


def _select_after(batch: Batch, offset: int) -> Batch | None:
    """Return a batch with only the records after an offset. Return None if it has none, or if they are unreadable."""
    try:
        records = tuple(record for record in batch.records if record.offset > offset)
    except InvalidLog:
        return None
    return replace(batch, parse_records=lambda _: records) if records else None


def _find_group(batch: Batch, offset: int) -> str | None:
    """Return the group that the key of a record names. Return None if the record is unreadable or names no group."""
    try:
        records = tuple(record for record in batch.records if record.offset == offset)
    except InvalidLog:
        return None
    keys = LogKeys(dialect("new", CHECKED_VERSIONS["new"][-1]))
    return next(find_group_ids(replace(batch, parse_records=lambda _: records), keys), None)


class FurtherFailures(NamedTuple):
    """What the search behind the first failure found.

    `findings` has a finding for each further record, and one for those that are not named. `note` is a sentence for the
    remedy of the first failure; "" if the first record is the only one.
    """

    findings: list[Finding]
    note: str


def find_further_failures(log: Log, rules: Dialect, first_offset: int | None) -> FurtherFailures:
    """Return the records that would stop the load behind the record at `first_offset`.

    If `first_offset` is None, the load fails at no single record, and there are no further ones.
    """
    if first_offset is None:
        return FurtherFailures([], "")
    if log.size > MAX_SIZE_TO_SEARCH:
        limit = MAX_SIZE_TO_SEARCH // 2**20
        return FurtherFailures([], f" The log is larger than {limit} MiB, so the records behind it were not tried.")
    records = islice(find_failing_records(log, rules), MAX_FURTHER + 2)
    further = [record for record in records if record.offset != first_offset]
    if not further:
        return FurtherFailures([], "")
    named = further[:MAX_FURTHER]
    is_complete = len(named) == len(further)
    offsets = ", ".join(str(offset) for offset in (first_offset, *(record.offset for record in named)))
    total = count_of(len(named) + 1, "record") if is_complete else f"more than {len(named) + 1} records"
    note = f" {total[0].upper()}{total[1:]} stop the load ({offsets}): all of them must go, not only the first one."
    findings = [_describe(log, rules, record, first_offset) for record in named]
    if not is_complete:
        what = f"More records than these {len(named) + 1} stop the load; the first one that is not named is at "
        remedy = "Cut the log before the first failing record, or use a release that loads it."
        offset = further[MAX_FURTHER].offset
        findings.append(Finding(log.partition, offset, None, None, KIND, f"{what}offset {offset}.", remedy))
    return FurtherFailures(findings, note)


def _describe(log: Log, rules: Dialect, record: FailingRecord, first_offset: int) -> Finding:
    what = f"This record also stops the load of a Kafka {rules.kafka} broker: {record.reason}."
    command = ["kafkagroups", "check", "COPY", "--coordinator", rules.coordinator, "--kafka", rules.kafka]
    remedy = (
        f"A repair that removes only the record at offset {first_offset} is not enough. Check the repaired copy before "
        f"a broker loads it: {join_words(command)}"
    )
    return Finding(log.partition, record.offset, record.group, None, KIND, what, remedy, command)
