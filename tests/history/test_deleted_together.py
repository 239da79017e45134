"""Groups that were deleted together: `timeline` and `explain` of one of them name the others.

A script that deletes groups one by one, and a broker whose groups expire, write the tombstones within seconds
(GroupCoordinator.handleDeleteGroups and GroupMetadataManager.cleanupGroupMetadata, 3.9.2). The expected names and
seconds follow by hand from the times of the tombstones.
"""

import pytest

import kafkagroups as kg
from kafkagroups.records.serde import ControlType
from tests.handmade import LogRecord, encode_batch, encode_marker, generation, group_tombstone
from tests.history.logs import ENGINES, SECOND, START, commit, write

TRANSACTION = {"attributes": 0x10, "producer_id": 7, "producer_epoch": 0}


@pytest.fixture
def topic(tmp_path):
    """a, b, c and again are deleted within 5 s, and late 5 minutes later; again comes back, and kept stays."""
    created = [generation(1, group=group) for group in ("a", "b", "late", "kept")]
    others = [generation(1, group=group) for group in ("c", "again")]
    written = {
        0: [
            *((0, record) for record in created),
            (100, group_tombstone("a")),
            (103, group_tombstone("b")),
            (400, group_tombstone("late")),
        ],
        1: [
            *((0, record) for record in others),
            (98, group_tombstone("c")),
            (99, group_tombstone("again")),
            (500, generation(1, group="again")),
        ],
    }
    for number, records in written.items():
        batches = [
            encode_batch([LogRecord(offset, START + second * SECOND, *kg.encode(record))])
            for offset, (second, record) in enumerate(records)
        ]
        write(tmp_path / "topic", batches, partition=number)
    aborted = [
        encode_batch([commit(0, START + 100 * SECOND, group="never")], **TRANSACTION),
        encode_marker(1, 7, ControlType.ABORT, time=START + 100 * SECOND),
    ]
    write(tmp_path / "topic", aborted, partition=2)
    return tmp_path / "topic"


@pytest.mark.parametrize("coordinator", ["classic", "new"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("group", "others"),
    [
        ("a", "; with it, 3 other groups went within 3 s: again, b, c."),
        ("c", "; with it, 3 other groups went within 5 s: a, again, b."),
        ("again", "; with it, 3 other groups went within 4 s: a, b, c."),
        ("late", "."),
    ],
)
def test_the_other_groups_are_named(topic, group, others, engine, coordinator):
    rules = {"engine": engine, "coordinator": coordinator}
    what = f"The group was deleted, and had no offset{others}"
    (event,) = [each for each in kg.timeline(topic, group, **rules).events if each.event == "deleted"]
    assert event.what == what
