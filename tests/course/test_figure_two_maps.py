"""The figure of lesson 08: commits in transactions wait by producer until a marker moves them."""

import pytest

from kafkagroups.course import TwoMaps, read_answers


@pytest.fixture(scope="module")
def figure():
    return TwoMaps()


def read_fetch(figure, step, ending):
    return [line.partition(": ")[2] for line in figure.text(step, ending)[:2]]


def test_the_place_of_the_commit_decides(figure):
    """As in the shop's act 4: the plain commit of 25 is newer than a transaction whose marker comes later."""
    answered = read_answers("harbour/4.3.1")["offsets"]["fraud-check"]["payments-0"]
    assert (answered["offset"], answered["metadata"]) == (25, "set back by hand")
    assert read_fetch(figure, 5, 0)[0] == "25"
    assert "waits for producer 1: record 1" not in figure.text(5, 0)


def test_the_order_of_the_markers_changes_no_final_answer(figure):
    """OffsetMetadataManager of 4.3.1: an older record never replaces a newer one."""
    assert read_fetch(figure, 6, 0) == read_fetch(figure, 6, 1) == ["30", "30"]


def test_an_aborted_offset_never_counts(figure):
    assert read_fetch(figure, 6, 2) == ["25", "25"]


def test_an_open_transaction_makes_stable_fetches_wait(figure):
    """OffsetFetch with requireStable answers UNSTABLE_OFFSET_COMMIT as long as a commit of the partition is pending."""
    for step in (2, 3, 4, 5, 6):
        assert read_fetch(figure, step, 3)[1] == "UNSTABLE_OFFSET_COMMIT"
