"""Groups with records in a partition that is not their home partition."""

import shutil
from itertools import count, islice

import pytest

import kafkagroups as kg
from kafkagroups import check, stats
from tests.history.logs import START, commit, find, find_and_check, write_each


def groups_of(partition, number, partitions=50):
    """Group ids whose home is this partition: Kafka's partitionFor."""
    names = (f"group-{suffix}" for suffix in count())
    return list(islice((name for name in names if kg.partition_for(name, partitions) == partition), number))


def append(folder, partition, groups, first=0, time=START):
    """Append a commit of each group."""
    write_each(folder, [commit(n, time + n, group) for n, group in enumerate(groups, first)], partition)


def write_copied(folder):
    """Partition 34 and its copy in the folder of partition 21. Then both go on."""
    foreign = groups_of(34, 4)
    append(folder, 34, foreign * 2)
    shutil.copytree(folder / "__consumer_offsets-34", folder / "__consumer_offsets-21")
    append(folder, 21, groups_of(21, 3), 8, START + 60_000)
    append(folder, 34, foreign, 8, START + 60_000)
    return foreign


@pytest.mark.parametrize("partitions", [None, 50])
def test_files_of_another_partition_in_a_folder_are_found(partitions, tmp_path):
    """Without a given count, the default of offsets.topic.num.partitions explains the place of every group.

    Some other count can explain a part of the groups, but the count was not changed.
    """
    foreign = write_copied(tmp_path)
    (finding,) = find_and_check(tmp_path, coordinator="classic", partitions=partitions)
    assert (finding.kind, finding.partition, finding.offset) == ("misplaced_groups", 21, 0)
    assert "8 records (offsets 0 to 7) are of 4 groups that belong to partition 34 of 50" in finding.what
    assert all(group in finding.what for group in foreign)
    assert "Up to offset 7, this log is a copy of the beginning of partition 34" in finding.what
    assert "Do not restart the broker" in finding.remedy
    assert "restore the files of partition 21" in finding.remedy
    for ask in (stats, check, kg.load):
        assert ask(tmp_path, coordinator="classic", partitions=partitions).topic_partitions.changed is None


def test_without_the_home_partition_both_reasons_are_named(tmp_path):
    append(tmp_path, 21, [*groups_of(21, 2), *groups_of(34, 1), *groups_of(7, 1)])
    path = tmp_path / "__consumer_offsets-21"
    assert find(path) == []
    (finding,) = find_and_check(path, partitions=50)
    assert (finding.kind, finding.partition, finding.offset) == ("misplaced_groups", 21, 2)
    assert "2 records (offsets 2 to 3) are of 2 groups that belong to partitions 7, 34 of 50" in finding.what
    assert "Either the partition count was changed, or files of another partition" in finding.what


def test_a_count_that_does_not_explain_every_group_is_not_assumed(tmp_path):
    """One group is in its home partition of 100 partitions, and not of 50."""
    write_copied(tmp_path)
    other = next(name for name in groups_of(89, 9, 100) if kg.partition_for(name, 50) == 39)
    append(tmp_path, 40, [other])
    assert find(tmp_path, coordinator="classic") == []
