"""The figure of lesson 10: what each pass does with each record of a small log."""

import pytest

from kafkagroups.course import Compaction


@pytest.fixture(scope="module")
def figure():
    return Compaction()


def read_words(figure, *options):
    """Return the word for each record of a pass, by offset."""
    words = {}
    for line in figure.text(*options):
        name, _, word = line.partition(": ")
        offset = name.split()[0]
        if offset.isdigit():
            words[int(offset)] = word
    return words


def test_a_pass_keeps_the_newest_record_of_each_key(figure):
    """Kafka's Cleaner: the offset map ends at the active segment, so A = 7 stays although A = 8 is newer."""
    words = read_words(figure, 1, 0, 0)
    assert [offset for offset, word in words.items() if word == "replaced"] == [0, 1, 2, 3, 5, 6, 8, 9, 10, 11, 12]
    assert [offset for offset, word in words.items() if word == "stays"] == [13, 14, 15]
    assert [offset for offset, word in words.items() if word == "not read"] == [16, 17]


def test_a_tombstone_and_a_marker_wait_for_their_horizon(figure):
    """KIP-534: a tombstone's day begins with the first pass, a marker's day when its transaction has no records."""
    assert [read_words(figure, step, 0, 0).get(4) for step in (1, 2, 3)] == ["until 24", "removed", None]
    assert [read_words(figure, step, 0, 0).get(7) for step in (1, 2, 3)] == ["needed", "until 49", "removed"]


def test_an_open_transaction_stops_every_pass(figure):
    """LogCleanerManager: the first uncleanable offset is the last stable offset, here in the segment from 4."""
    for step in (1, 2, 3):
        assert "the pass ends at: 4" in figure.text(step, 0, 1)
        assert {word for offset, word in read_words(figure, step, 0, 1).items() if offset >= 4} == {"not read"}


def test_the_active_segment_is_never_read(figure):
    """If it begins at 8, nothing from 8 on is cleaned."""
    for step in (1, 2, 3):
        assert {word for offset, word in read_words(figure, step, 1, 0).items() if offset >= 8} == {"not read"}
