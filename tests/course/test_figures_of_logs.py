"""The figures that load or clean a small log, compared with what Kafka's classes and brokers do with it."""

from functools import partial

from kafkagroups.course import read_answers
from tests.course.figures import make_figure

load_tape = partial(make_figure, "load-tape")
two_maps = partial(make_figure, "two-maps")
compaction = partial(make_figure, "compaction")


# Lesson 08, two maps: commits in transactions wait by producer until a marker moves them.


def read_fetch(step, ending):
    return [line.partition(": ")[2] for line in two_maps().text(step, ending)[:2]]


def test_the_place_of_the_commit_decides():
    """As in the shop's act 4: the plain commit of 25 is newer than a transaction whose marker comes later."""
    answered = read_answers("harbour/4.3.1")["offsets"]["fraud-check"]["payments-0"]
    assert (answered["offset"], answered["metadata"]) == (25, "set back by hand")
    assert read_fetch(5, 0)[0] == "25"
    assert "waits for producer 1: record 1" not in two_maps().text(5, 0)


def test_an_open_transaction_makes_stable_fetches_wait():
    """OffsetFetch with requireStable answers UNSTABLE_OFFSET_COMMIT as long as a commit of the partition is pending."""
    for step in (2, 3, 4, 5, 6):
        assert read_fetch(step, 3)[1] == "UNSTABLE_OFFSET_COMMIT"


# Lesson 10, three passes: what each pass does with each record of a small log.


def read_pass(*options):
    """Return the word for each record of a pass, by offset."""
    words = {}
    for line in compaction().text(*options):
        name, _, word = line.partition(": ")
        offset = name.split()[0]
        if offset.isdigit():
            words[int(offset)] = word
    return words


def test_a_pass_keeps_the_newest_record_of_each_key():
    """Kafka's Cleaner: the offset map ends at the active segment, so A = 7 stays although A = 8 is newer."""
    words = read_pass(1, 0, 0)
    assert [offset for offset, word in words.items() if word == "replaced"] == [0, 1, 2, 3, 5, 6, 8, 9, 10, 11, 12]
    assert [offset for offset, word in words.items() if word == "kept"] == [13, 14, 15]
    assert [offset for offset, word in words.items() if word == "not read"] == [16, 17]


def test_a_tombstone_and_a_marker_wait_for_their_horizon():
    """KIP-534: a tombstone's day begins with the first pass, a marker's day when its transaction has no records."""
    assert [read_pass(step, 0, 0).get(4) for step in (1, 2, 3)] == ["until 24", "removed", None]
    assert [read_pass(step, 0, 0).get(7) for step in (1, 2, 3)] == ["needed", "until 49", "removed"]


# Lesson 11, the tape: a load drops the records of a log into the memory of both coordinators.


END = 10


def test_a_value_of_zero_bytes_empties_both_memories():
    """The brokers answer as they did for the crafted logs (data/crafted/answers.json)."""
    assert load_tape().text(END, 1) == [
        "3.9.2 answers about billing sales-0: −1",
        "4.3.1 answers about billing sales-0: NOT_COORDINATOR",
        "9 of 9 records are read",
    ]
    assert load_tape().text(END, 0)[0] == "3.9.2 answers about billing sales-0: 17"
