"""The partition count of the offsets topic: given, found in a folder, or unknown, and whether it was changed.

The expectations follow from Kafka's rule for a group's partition (GroupMetadataManager.partitionFor), and from what a
4.3.1 broker answers for a group with records in several partitions (tests/groups/test_load_crafted.py): the home
partition answers.
"""

import itertools
import json

import pytest

import kafkagroups as kg
from kafkagroups import partition_for
from tests.captured import captured
from tests.handmade import START, commit_record, write_batches
from tests.snapshots.forged import take_snapshot

ENGINES = ["python", "compiled"]


def commit(group, offset, time):
    """A commit of a group for t-0, `time` ms after START; -1 is a record without a timestamp."""
    return -1 - START if time == -1 else time, [commit_record(offset, group=group)]


def write_topic(folder, partitions):
    """Write a folder with one segment for each partition. `partitions` has the commits of each partition."""
    for number, commits in partitions.items():
        write_batches(folder, commits, number)
    return folder


def ids_with(old, new, count, *, old_count=3, new_count=5):
    """Return `count` group ids that are stored in partition `old` of `old_count`, and in `new` of `new_count`."""
    ids = (f"group-{number}" for number in itertools.count())
    homes = ((id, partition_for(id, old_count), partition_for(id, new_count)) for id in ids)
    return list(itertools.islice((id for id, *found in homes if found == [old, new]), count))


@pytest.fixture
def widened(tmp_path):
    """A topic of 3 partitions that has 5 from 1000 ms on: two groups have moved, one has the same home."""
    (moved,) = ids_with(1, 4, 1)
    (other,) = ids_with(2, 0, 1)
    (stays,) = ids_with(2, 2, 1)
    (started,) = ids_with(0, 3, 1)
    partitions = {
        0: [commit(other, 21, 1100)],
        1: [commit(moved, 1, 0), commit(moved, 2, 500)],
        2: [commit(stays, 5, 100), commit(other, 20, 200), commit(stays, 6, 2000)],
        3: [commit(started, 7, 1500)],
        4: [commit(moved, 3, 1000)],
    }
    return write_topic(tmp_path / "widened", partitions), moved, other


def answer(groups, group):
    return {str(name): offset.offset for name, offset in groups[group].offsets.items()}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_folder_with_all_partitions_shows_the_count_and_the_home_partition_answers(widened, engine):
    """The folder has partitions 0 to 4, and the newest records are in the home partitions of 5: these answer."""
    path, moved, other = widened
    groups = kg.load(path, engine=engine)
    assert answer(groups, moved) == {"t-0": 3} and answer(groups, other) == {"t-0": 21}
    assert groups.elsewhere == {moved: [1], other: [2]}
    assert groups.topic_partitions.to_json() == {
        "count": 5,
        "from": "folder",
        "changed": {"from": 3, "to": 5, "groups": sorted([moved, other]), "since_ms": START + 1000},
    }
    given = kg.load(path, engine=engine, partitions=5)
    assert (given.groups, given.elsewhere) == (groups.groups, groups.elsewhere)
    assert given.topic_partitions.to_json() == groups.topic_partitions.to_json() | {"from": "option"}


def test_a_snapshot_gives_the_same_answers(widened):
    """The groups of a snapshot, and its partition count, are those of a load."""
    path, _, _ = widened
    groups = kg.load(path)
    resumed = take_snapshot(path).groups(str(path))
    assert (resumed.groups, resumed.elsewhere) == (groups.groups, groups.elsewhere)
    assert resumed.topic_partitions == groups.topic_partitions


@pytest.mark.parametrize("engine", ENGINES)
def test_explain_and_stats_use_the_count_of_the_folder(widened, engine):
    """The record in the old home partition is ignored, and is not live."""
    path, moved, _ = widened
    story = kg.explain(path, moved, engine=engine)
    assert [(record.partition, record.fate.value) for record in story.history] == [
        (1, "superseded"),
        (1, "ignored"),
        (4, "wins"),
    ]
    assert story.topic_partitions == kg.load(path).topic_partitions
    counts = kg.stats(path, engine=engine)
    assert (counts.partitions[1].live_records, counts.partitions[4].live_records) == (0, 1)
    assert counts.topic_partitions == story.topic_partitions


def test_the_classic_coordinator_has_one_cache_for_all_partitions(widened):
    """The count changes no answer of the classic coordinator, but the change is reported."""
    path, moved, other = widened
    groups = kg.load(path, "classic")
    assert answer(groups, moved) == {"t-0": 2}
    assert groups.topic_partitions.changed.groups == sorted([moved, other])


@pytest.mark.parametrize("times", [(500, 500), (600, 500), (500, -1), (-1, -1)], ids=str)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_count_is_unknown_if_the_newest_record_is_not_surely_in_the_home_partition(tmp_path, times, engine):
    """Equal timestamps, a newer record in the old partition, or no timestamps: the first partition answers."""
    (moved,) = ids_with(1, 4, 1)
    old, new = times
    partitions = {0: [], 1: [commit(moved, 1, old)], 2: [], 3: [], 4: [commit(moved, 2, new)]}
    groups = kg.load(write_topic(tmp_path / "log", partitions), engine=engine)
    assert groups.topic_partitions.to_json() == {"count": None, "from": "unknown", "changed": None}
    assert groups.topic_partitions.misplaced_groups == [moved]
    assert answer(groups, moved) == {"t-0": 1} and groups.elsewhere == {moved: [4]}


def test_a_group_outside_its_home_partition_makes_the_count_unknown(tmp_path):
    """All records of a group are in a partition that is not its home partition of the folder's count."""
    (foreign,) = ids_with(1, 4, 1)
    partitions = {0: [], 1: [commit(foreign, 1, 0)], 2: [], 3: [], 4: []}
    groups = kg.load(write_topic(tmp_path / "log", partitions))
    assert groups.topic_partitions.count is None and answer(groups, foreign) == {"t-0": 1}


def test_one_partition_does_not_show_the_count(widened):
    """A partition folder or a segment as PATH is one partition of an unknown number."""
    path, _, _ = widened
    folder = path / "__consumer_offsets-0"
    for one in (folder, folder / f"{0:020}.log"):
        assert kg.load(one).topic_partitions.to_json() == {"count": None, "from": "unknown", "changed": None}


def test_the_folders_of_real_brokers_with_all_partitions_show_the_count():
    """Brokers with offsets.topic.num.partitions=4: every group is in its home partition of 4."""
    for name in ("3.9.2-main", "4.3.1-main", "2.8.2-basic"):
        groups = kg.load(captured("runs") / "runs" / name / "log")
        assert groups.topic_partitions.to_json() == {"count": 4, "from": "folder", "changed": None}


def test_missing_partition_folders_are_named(tmp_path, run):
    """The folder has the partitions 0, 1 and 4: 2 and 3 are missing for sure, and with --partitions 7 also 5 and 6."""
    ids = [ids_with(partition, partition, 1, old_count=7)[0] for partition in (0, 1, 4)]
    partitions = {partition_for(id, 7): [commit(id, 1, 0)] for id in ids}
    path = write_topic(tmp_path / "log", partitions)
    assert "partitions 2 to 3." in run("load", path)[1]
    assert "partitions 2 to 3, 5 to 6 of 7." in run("load", path, "--partitions", "7")[1]


def test_the_commands_say_what_was_assumed_and_what_was_changed(widened, run):
    """Text: old and new count, the time, and the affected groups. JSON: the same object in every command."""
    path, moved, _ = widened
    for command in (["load"], ["stats"], ["explain", "--group", moved]):
        text = " ".join(run(*command, path)[1].split())  # The text is wrapped.
        assert "changed from 3 to 5, at the latest at 2023-11-14 22:13:21 UTC" in text and moved in text
        topic = json.loads(run(*command, path, "--json")[1])["topic_partitions"]
        assert topic == kg.load(path).topic_partitions.to_json()


NAMES = [f"g{number}" for number in range(20)]
AT_HOME = {home: [name for name in NAMES if partition_for(name, 5) == home] for home in range(5)}


def test_dead_groups_after_a_change_of_the_count_are_not_misplaced(tmp_path):
    """From 3 partitions to 5: two of twenty groups have not come back, so no record of them is at home."""
    logs = {number: [] for number in range(5)}
    for name in NAMES:
        logs[partition_for(name, 3)].append(commit(name, 1, 0))
    for name in NAMES[2:]:
        logs[partition_for(name, 5)].append(commit(name, 2, 1000))
    write_topic(tmp_path, logs)
    assert not [finding for finding in kg.check(tmp_path).findings if finding.kind == "misplaced_groups"]


def test_later_records_in_another_partition_are_no_change_of_the_count(tmp_path):
    """Its follower copies what this broker writes. Before a change, nothing was written at the new home, so what came
    first at home, and only then elsewhere, is no trace of a change."""
    healthy = {home: [commit(name, 1, home) for name in names] for home, names in AT_HOME.items()}
    name = AT_HOME[2][0]
    healthy[0].append(commit(name, 2, 50))
    healthy[2].append(commit(name, 3, 60))
    write_topic(tmp_path, healthy)
    topic_partitions = kg.load(tmp_path).topic_partitions
    assert topic_partitions.changed is None and topic_partitions.shared_groups == [name]
    (finding,) = kg.check(tmp_path).findings
    assert (finding.kind, finding.partition) == ("misplaced_groups", 0)
