"""Several records with the same offset: `load`, `explain` and `stats` agree on which of them are in effect."""

import pytest

import kafkagroups as kg
from kafkagroups import explain, stats
from tests.groups.small_logs import START, group_record, offset_record
from tests.handmade import (
    TRANSACTIONAL,
    GroupMetadataValue,
    LogRecord,
    OffsetCommitValue,
    encode_batch,
    encode_marker as marker,
    write_segment,
)

EMPTY_GROUP = group_record(GroupMetadataValue("consumer", 1, None, None, START, []))


def commit(partition, offset, group="g"):
    return offset_record(partition, OffsetCommitValue(offset, commit_timestamp=START), group)


def tombstone(partition):
    return offset_record(partition, None)


def batch(offset, *pairs, producer=-1):
    records = [LogRecord(offset, START, *pair) for pair in pairs]
    attributes = 0 if producer == -1 else TRANSACTIONAL
    return encode_batch(records, attributes=attributes, producer_id=producer)


@pytest.mark.parametrize("coordinator", ["classic", "new"])
@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        pytest.param(
            [batch(0, commit(0, 1), commit(1, 2)), batch(1, tombstone(0))],
            {"g": ["deleted", "wins", "tombstone"]},
            id="the tombstone of one of two offsets",
        ),
        pytest.param(
            [batch(0, commit(0, 1), commit(1, 2), commit(0, 3, "h")), batch(1, tombstone(0))],
            {"g": ["deleted", "wins", "tombstone"], "h": ["wins"]},
            id="the tombstone of one of three offsets of two groups",
        ),
        pytest.param(
            [batch(0, EMPTY_GROUP, commit(0, 1)), batch(1, tombstone(0))],
            {"g": ["wins", "deleted", "tombstone"]},
            id="a group record and an offset that is deleted",
        ),
        pytest.param(
            [batch(0, EMPTY_GROUP, commit(0, 1)), batch(1, EMPTY_GROUP)],
            {"g": ["superseded", "wins", "wins"]},
            id="a group record that is superseded, and an offset",
        ),
        pytest.param(
            [batch(0, commit(0, 1), commit(0, 2))],
            {"g": ["superseded", "wins"]},
            id="the same key twice",
        ),
        pytest.param(
            [batch(0, commit(0, 1), tombstone(0), commit(0, 2))],
            {"g": ["deleted", "tombstone", "wins"]},
            id="the same key, deleted and committed again",
        ),
        pytest.param(
            [batch(0, EMPTY_GROUP, EMPTY_GROUP)],
            {"g": ["superseded", "wins"]},
            id="the same group twice",
        ),
        pytest.param(
            [batch(0, commit(0, 1), commit(0, 2), producer=7), batch(1, commit(1, 3))],
            {"g": ["superseded", "pending", "wins"]},
            id="the same key twice in an open transaction",
        ),
        pytest.param(
            [batch(0, commit(0, 1), commit(1, 2), producer=7), marker(1, 7)],
            {"g": ["wins", "wins", "marker"]},
            id="two keys in a committed transaction",
        ),
    ],
)
def test_each_of_them_has_its_own_fate(batches, expected, coordinator, tmp_path):
    """A batch is valid if several of its records have the same offset. No record may get the fate of another one."""
    folder = write_segment(tmp_path, b"".join(batches))
    groups = kg.load(folder, coordinator)
    live_records = {row: count.live_records for row, count in stats(folder, coordinator=coordinator).rows.items()}
    for name, fates in expected.items():
        history = explain(folder, name, coordinator=coordinator).history
        assert [entry.fate.value for entry in history] == fates
        assert live_records[name] == fates.count("wins") + fates.count("pending")
        winners = [entry for entry in history if entry.fate.value == "wins" and entry.key is not None]
        answered = {key: (offset.record_offset, offset.offset) for key, offset in groups[name].offsets.items()}
        assert len(winners) == len(answered)
        assert {entry.key: (entry.offset, entry.committed) for entry in winners} == answered
