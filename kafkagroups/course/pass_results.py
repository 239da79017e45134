"""Lesson 10: what a pass of the log cleaner did with each record, found from the log before and after the pass.

A tombstone or a transaction marker is removed only after its delete horizon. A result is the record's class
(`classify_records`) and one of these words:

- kept: the record stays
- set: the record stays, and the pass stored a delete horizon
- waits, or of a tombstone "kept": the record stays, because the delete horizon has not passed
- gone: the record was removed

The result of a record that the pass did not read is "unchanged".
"""

from __future__ import annotations

from pathlib import Path

from kafkagroups.course.cleaner_passes import OFFSET_MAP_CLASSES, CleanerPass, classify_records
from kafkagroups.log.folders import open_log


def find_results(cleaner_pass: CleanerPass) -> dict[int, str]:
    horizons_before = _read_horizons(cleaner_pass.log_before)
    horizons_after = _read_horizons(cleaner_pass.log_after)
    records = list(classify_records(cleaner_pass.log_before))
    newest_offsets = {
        record.key: record.offset
        for record_class, record in records
        if record_class in OFFSET_MAP_CLASSES and record.offset < cleaner_pass.end_offset
    }
    results = {}
    for record_class, record in records:
        offset = record.offset
        if offset >= cleaner_pass.end_offset:
            results[offset] = "unchanged"
            continue
        if offset not in horizons_after:
            change = "gone"
        else:
            change = _describe_kept(record_class, horizons_before[offset], horizons_after[offset])
        is_superseded = offset < newest_offsets.get(record.key, -1)
        if record_class == "tombstone" and is_superseded:
            record_class = "value"  # The cleaner removes this tombstone like a value, without a delete horizon.
        results[offset] = f"{record_class} {change}"
    return results


def _describe_kept(record_class: str, horizon_before: int | None, horizon_after: int | None) -> str:
    if record_class not in ("tombstone", "marker") or horizon_after is None:
        return "kept"
    if horizon_before is None:
        return "set"
    return "waits" if record_class == "marker" else "kept"


def _read_horizons(log: Path) -> dict[int, int | None]:
    """Return the delete horizon of the batch of each record in ms since 1970, or None, by record offset."""
    return {record.offset: batch.delete_horizon_ms for batch in open_log(log) for record in batch.records}
