"""The figure of lesson 04: where an offset is after each step, and what the next broker answers after a power cut."""

import pytest

from kafkagroups.course import CommitAndPowerCut, CommitScript

SCRIPT = ("commit 5", "confirm 5", "commit 6", "cache 6", "answer 6")


@pytest.fixture(scope="module")
def figure():
    return CommitAndPowerCut(*SCRIPT)


def test_each_scene_has_the_places_of_its_step(figure):
    """storeOffsets (3.9): pending, log and cache of the coordinator that plays the script."""
    for number, step in enumerate(CommitScript(*SCRIPT).steps):
        text = figure.text(number, 0)
        assert f"pending: {step.places.pending}" in text
        assert f"log: {step.places.log}" in text
        assert f"cache: {step.places.cache}" in text


def test_after_a_power_cut_the_next_broker_may_have_the_newest_record(figure):
    """After step 5, the record of 6 is in one log only. After step 6, the replicas have it."""
    after_append = figure.text(4, 1)
    assert "after a power cut, with the whole log: 6" in after_append
    assert "after a power cut, with the confirmed log: 5" in after_append
    assert "after a power cut, with the confirmed log: 6" in figure.text(5, 1)


def test_before_the_first_record_the_next_broker_has_no_offset(figure):
    """−1 is the answer of OffsetFetch for a partition without an offset."""
    assert "after a power cut, with the whole log: −1" in figure.text(0, 1)
