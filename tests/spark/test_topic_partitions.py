"""The partition count of the offsets topic with Spark: the same count and the same answers as in one process."""

import pytest

import kafkagroups as kg
from kafkagroups import spark as kgs
from tests.loading.test_topic_partitions import ids_with, widened

__all__ = ["widened"]


@pytest.mark.thorough
@pytest.mark.parametrize("partitions", [None, 5])
def test_a_topic_whose_partition_count_was_changed_is_answered_as_in_one_process(session, widened, partitions):
    """The driver decides the count from the groups of all tasks: load, stats and explain."""
    path, moved, _ = widened
    here = kg.load(path, partitions=partitions)
    there = kgs.load_groups(path, partitions=partitions, session=session)
    assert (there.groups, there.elsewhere) == (here.groups, here.elsewhere)
    assert there.topic_partitions == here.topic_partitions
    assert here.topic_partitions.changed is not None
    assert kgs.stats(path, partitions=partitions, session=session) == kg.stats(path, partitions=partitions)
    (same_home,) = ids_with(2, 2, 1)
    for group in (moved, same_home):
        found = kgs.explain(path, group, partitions=partitions, session=session)
        assert found == kg.explain(path, group, partitions=partitions)
