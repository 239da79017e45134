"""The figure of lesson 09: two clocks, and the day on which an offset is deleted."""

from itertools import product

import pytest

from kafkagroups import UsageError
from kafkagroups.course import ExpiryChart

COMMIT_DAYS = (0, 2, 4)
LEAVES_ON_4, LEAVES_ON_9, STAYS, OTHER_TOPIC, NEVER = range(5)
RETENTIONS = (7, 3)


@pytest.fixture(scope="module")
def figure():
    return ExpiryChart()


def read_days(lines):
    """Return the words for the deletion in 1.0.1 and since 2.4."""
    return [line.partition(": ")[2] for line in lines if line.startswith("deletion in ")]


@pytest.mark.parametrize(("commit", "retention"), list(product(range(3), range(2))))
def test_before_2_1_the_commit_starts_the_only_clock(figure, commit, retention):
    """1.0.1, GroupMetadata.removeExpiredOffsets: `expireTimestamp < now`, no matter who the members are."""
    for members in range(5):
        day = COMMIT_DAYS[commit] + RETENTIONS[retention]
        assert read_days(figure.text(2, commit, members, retention))[0] == f"day {day}"


@pytest.mark.parametrize(("commit", "retention"), list(product(range(3), range(2))))
def test_since_2_4_the_group_decides(figure, commit, retention):
    """KIP-211: Empty groups from the change of state, simple groups and topics without a subscriber from the commit."""
    expected = {
        LEAVES_ON_4: 4 + RETENTIONS[retention],
        LEAVES_ON_9: 9 + RETENTIONS[retention],
        OTHER_TOPIC: COMMIT_DAYS[commit] + RETENTIONS[retention],
        NEVER: COMMIT_DAYS[commit] + RETENTIONS[retention],
    }
    for members, day in expected.items():
        assert read_days(figure.text(2, commit, members, retention))[1] == f"day {day}"
    assert read_days(figure.text(2, commit, STAYS, retention))[1] == "stays"


def test_before_the_last_step_no_day_of_a_deletion_is_shown(figure):
    """The first scene asks the prediction of the lesson: commit on day 0, departure on day 4, retention of 7 days."""
    for step in (0, 1):
        assert read_days(figure.text(step, 0, LEAVES_ON_4, 0)) == []
    assert figure.first_scene.caption.endswith("On which day is the offset deleted?")
    assert "11" not in figure.first_scene.caption


def test_typed_days_are_computed(figure):
    """Commit on day 1, departure on day 8, retention of 5 days: 1 + 5 and 8 + 5."""
    assert read_days(figure.compute_content("1, 8, 5").scenes[2, 0, 0, 0].text) == ["day 6", "day 13"]
    assert read_days(figure.compute_content("0,never,7").scenes[2, 0, 0, 0].text) == ["day 7", "stays"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("soon", "for example '1, 8, 5'"),
        ("9, 8, 5", "commits before it leaves"),
        ("1, 8, 99", "retention is 1 to 10"),
        ("1, 11, 5", "leaves on day 1 to 10"),
    ],
)
def test_days_that_make_no_sense_are_refused(figure, value, message):
    with pytest.raises(UsageError, match=message):
        figure.compute_content(value)
