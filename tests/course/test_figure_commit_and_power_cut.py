"""The figure of lesson 04: where an offset is after each step, and what the next broker answers after a power cut."""

import pytest

from kafkagroups.course import CommitAndPowerCut


@pytest.fixture(scope="module")
def figure():
    return CommitAndPowerCut()


def test_each_scene_has_the_places_of_both_coordinators(figure):
    """After the append, a fetch of 4.x reads the snapshot, and one of 3.9 the cache."""
    assert figure.text(2, 0)[1:] == [
        *("4.3.1, memory: 6", "4.3.1, snapshot: 5", "4.3.1, log: 5 6", "4.3.1, replica: 5", "4.3.1, answer: waits"),
        *("3.9.2, pending: 6", "3.9.2, cache: 5", "3.9.2, log: 5 6", "3.9.2, replica: 5", "3.9.2, answer: waits"),
    ]


@pytest.mark.parametrize(("step", "answers"), [(0, "55"), (1, "55"), (2, "65"), (3, "66"), (4, "66")])
def test_after_a_power_cut_the_next_broker_may_have_the_newest_record(figure, step, answers):
    """After the append, the record of 6 is in one log for certain. After the confirmation, the replica has it."""
    whole, confirmed = answers
    assert f"after a power cut, with the whole log: {whole}" in figure.text(step, 1)
    assert f"after a power cut, with the confirmed records: {confirmed}" in figure.text(step, 1)


def test_both_coordinators_leave_the_same(figure):
    """The scene shows the answers of one next broker only, because a crash leaves the log, and the logs are equal."""
    new, classic = figure.moments.values()
    for ours, theirs in zip(new, classic, strict=True):
        assert ours.next_with_whole_log == theirs.next_with_whole_log
        assert ours.next_with_confirmed_log == theirs.next_with_confirmed_log
