"""Records whose times are far later than the time of a record after them."""

import pytest
from msgspec.structs import replace

import kafkagroups as kg
from kafkagroups import stats
from tests.command import ask_json
from tests.handmade import ControlType, LogRecord, encode_batch, encode_marker, group_tombstone
from tests.history.logs import DAY, ENGINES, HOUR, START, commit, find_and_check as find, write, write_each


def write_times(folder, times):
    return write_each(folder, [commit(offset, START + time) for offset, time in enumerate(times)])


def test_a_clock_that_was_ahead_is_found_with_what_was_deleted(tmp_path):
    """The check for expired offsets compares with the clock: GroupMetadata.removeExpiredOffsets (3.9)."""
    ahead = START + 3 * 365 * DAY
    group_key, _ = kg.encode(group_tombstone("monthly"))
    deleted = [commit(3, ahead + 5000, "nightly"), commit(4, ahead + 5000, "monthly")]
    records = [
        *[commit(0, START, "nightly"), commit(1, START, "monthly"), commit(2, ahead, "other")],
        *[replace(record, value=None) for record in deleted],
        LogRecord(5, ahead + 5000, group_key, None),
        *[commit(6, START + 9000, "other"), replace(commit(7, START + 9001, "other"), value=None)],
    ]
    path = write_each(tmp_path, records)
    (finding,) = find(path, coordinator="classic", kafka="3.9.2")
    assert (finding.kind, finding.partition, finding.offset, finding.group) == ("clock_jump", 0, 2, None)
    assert "from offset 2 to 5 have times up to 2026-11-13 22:13:25 UTC. But record 6" in finding.what
    assert "has the time 2023-11-14 22:13:29 UTC, 1095 days earlier" in finding.what
    assert "a broker's clock was wrong, or records of a copied log" in finding.what
    assert "In this range, offsets of 2 groups were deleted (monthly, nightly)" in finding.what
    command = f"kafkagroups load {path} --coordinator classic --kafka 3.9.2 --until 2"
    assert finding.remedy.endswith(command)
    before = kg.load(path, "classic", "3.9.2", until=2)
    assert sorted(before) == ["monthly", "nightly"]


def test_an_expiry_by_a_wrong_clock_says_so_in_the_timeline(tmp_path):
    """The group comes back at the right time, so the clock that deleted its offset was ahead."""
    ahead = START + 8 * DAY + 1000
    records = [commit(0, START), replace(commit(1, ahead), value=None), commit(2, START + 1000)]
    (expired, *_) = [
        each.what for each in kg.timeline(write_each(tmp_path, records), "g").events if each.event == "expired"
    ]
    assert expired.endswith("; a later record has a time 8 days earlier, so a broker's clock was wrong.")


@pytest.mark.parametrize(
    ("name", "times", "place"),
    [
        ("equal clocks", [0, 1, 2], None),
        ("a group that commits once a day", [0, DAY, 2 * DAY], None),
        ("a broker's clock is a little behind", [0, HOUR, 1, 2], None),
        ("exactly an hour behind", [5, 5 + HOUR, 5], (1, 1, 2)),
        ("the clock stays right afterwards", [0, 2 * HOUR, 1, 2, 3 * HOUR, 3 * HOUR], (1, 1, 2)),
        ("the largest of two jumps", [0, 2 * HOUR, 1, 2, 9 * HOUR, 9 * HOUR, 3], (4, 5, 6)),
        ("a copied log that begins anew", [0, HOUR, 2 * HOUR, 3 * HOUR, HOUR // 2, HOUR], (2, 3, 4)),
        ("one late and one early record", [0, 3 * HOUR, 1, 3 * HOUR], (1, 1, 2)),
        ("only the end is ahead", [0, 1, DAY], None),
    ],
)
def test_the_range_of_a_jump(name, times, place, tmp_path):
    """A jump at the end of a log is not visible, because no later record has an earlier time."""
    found = find(write_times(tmp_path, times))
    assert [finding.offset for finding in found] == ([] if place is None else [place[0]])
    if place is not None:
        first, last, step = place
        assert f"from offset {first} to {last} " in found[0].what
        assert f"record {step} after them" in found[0].what
        assert "can delete the offsets of groups without members" in found[0].remedy


@pytest.mark.parametrize(
    ("leader_epochs", "what", "remedy"),
    [
        ([3, 3, 3, 3, 3], "so its clock was right, and another program wrote these records", "Find the program"),
        ([3, 3, 3, 4, 5], "So the clock of the broker that led the partition then was wrong", "Compare the clocks"),
    ],
)
def test_the_record_that_is_out_of_line_with_its_neighbours_is_named(leader_epochs, what, remedy, tmp_path):
    """A broker takes the time of a record from its own clock (GroupMetadataManager.storeOffsets, 3.9); a producer of
    the topic sets any time (message.timestamp.type=CreateTime)."""
    times = [0, 9 * HOUR, 9 * HOUR, 2 * HOUR, 9 * HOUR + 1]
    batches = [
        encode_batch([commit(offset, START + time)], partition_leader_epoch=epoch)
        for offset, (time, epoch) in enumerate(zip(times, leader_epochs, strict=True))
    ]
    (finding,) = find(write(tmp_path, batches))
    assert (finding.kind, finding.offset) == ("clock_jump", 3)
    assert "from offset 3 to 3 have times such as 2023-11-15 00:13:20 UTC" in finding.what
    assert "before and after them are 7 h later" in finding.what
    assert what in finding.what and finding.remedy.startswith(remedy)
    assert finding.command_line.endswith("--from 3 --until 4")


def test_times_without_any_order_are_one_finding(tmp_path):
    times = [(number % 2) * 7_200_000 for number in range(300)]
    assert len(find(write_times(tmp_path, times))) == 1


def test_a_record_without_a_time_is_no_step_back(tmp_path):
    """A batch of an old message format has no timestamps: RecordBatch.NO_TIMESTAMP is -1."""
    records = [commit(0, START), commit(1, -1), commit(2, START)]
    assert find(write_each(tmp_path, records)) == []


def test_commit_and_abort_markers_are_counted(run, tmp_path):
    batches = []
    for number, kind in enumerate([ControlType.COMMIT, ControlType.ABORT, ControlType.COMMIT]):
        batches.append(encode_batch([commit(2 * number, START)], attributes=0x10, producer_id=7))
        batches.append(encode_marker(2 * number + 1, 7, kind))
    path = write(tmp_path, batches)
    for engine in ENGINES:
        (partition,) = stats(path, engine=engine).partitions.values()
        assert (partition.commit_markers, partition.abort_markers) == (2, 1)
        assert "Markers: 2 commit markers and 1 abort marker." in run("stats", path, "--engine", engine)[1]
        (counts,) = ask_json("stats", path, "--engine", engine, "--json")["partitions"].values()
        assert (counts["commit_markers"], counts["abort_markers"]) == (2, 1)
