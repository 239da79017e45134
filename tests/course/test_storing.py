"""Lesson 04's own tools: commits in flight, and real conversations played again."""

import re

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.course.exercises import EXERCISES
from tests.course.test_widgets import DATA, bundle


def ends(*script):
    """Cache, pending, what a stable fetch says and what the clients hear, at the end of a script."""
    now = course.Flight(*script).moments[-1].places
    return now.cache, now.pending, now.stable, now.answers


def test_a_commit_is_prepared_appended_and_cached_in_this_order():
    """storeOffsets (3.9): prepareOffsetCommit, appendForGroup, putCacheCallback; a fetch sees the cache."""
    moments = course.Flight("commit 5", "confirm 5").moments
    assert [(m.places.pending, m.places.log, m.places.cache) for m in moments] == [
        ("5", "–", "–"),
        ("5", "5", "–"),
        ("–", "5", "5"),
    ]
    assert [m.places.answers for m in moments] == ["5: waits", "5: waits", "5: NONE"]
    assert [(m.whole, m.confirmed) for m in moments] == [("–", "–"), ("5", "–"), ("5", "5")]


def test_a_time_out_leaves_a_record_that_the_cache_does_not_know():
    """The callback of a failed append takes back what was pending; the log keeps its record."""
    flight = course.Flight("commit 5", "confirm 5", "commit 6", "late 6")
    last = flight.moments[-1]
    assert last.places == ("–", "5 6", "5", "5", "5: NONE, 6: REQUEST_TIMED_OUT")
    assert (last.whole, last.confirmed) == ("6", "5")
    assert ends("refuse 6") == ("–", "–", "–", "6: COORDINATOR_NOT_AVAILABLE")


def test_the_later_record_wins_whoever_is_answered_first():
    """onOffsetCommitAppend (3.9): olderThan compares places in the log."""
    for order in (("confirm 6", "confirm 7"), ("confirm 7", "confirm 6")):
        assert ends("commit 6", "commit 7", *order) == ("7", "–", "7", "6: NONE, 7: NONE")


def test_the_place_in_the_log_decides_while_something_is_pending():
    """onOffsetCommitAppend (3.9): 8 is pending, so 6 would be cached, but 7 stands behind it."""
    assert ends("commit 6", "commit 7", "confirm 7", "commit 8", "confirm 6")[:2] == ("7", "8")


def test_a_commit_is_cached_before_its_client_hears():
    """putCacheCallback (3.9): the cache, and then the response; a crash in between leaves 6."""
    moments = course.Flight("commit 5", "confirm 5", "commit 6", "cache 6", "answer 6").moments[-2:]
    assert [m.what for m in moments] == ["6 confirmed, cached", "6 answered: NONE"]
    assert [(m.places.cache, m.places.answers, m.next_broker) for m in moments] == [
        ("6", "5: NONE, 6: waits", "6"),
        ("6", "5: NONE, 6: NONE", "6"),
    ]
    assert course.Flight("txn 6", "cache 6").moments[-1].what == "6 confirmed"


def test_the_next_broker_has_what_waits_in_a_transaction():
    """loadGroupsAndOffsets (3.9): pending offsets of a producer without a marker wait again."""
    moments = course.Flight("commit 5", "confirm 5", "txn 6", "confirm 6", "commit 4", "confirm 4").moments
    assert [m.next_broker for m in moments][3:] == [
        "5",
        "5, waits: 6? or –",
        "5, waits: 6?",
        "5, waits: 6?",
        "4 or 5, waits: 6?",
        "4, waits: 6?",
    ]


def test_a_commit_is_not_cached_when_a_later_one_has_failed():
    """onOffsetCommitAppend (3.9): only while something is pending for the partition."""
    assert ends("commit 5", "confirm 5", "commit 6", "commit 7", "late 7", "confirm 6")[0] == "5"


def test_a_transaction_waits_for_its_marker_and_its_own_place_decides():
    """As act 4 of the story: 25, set back by hand, stands behind the transaction's 30."""
    assert ends("txn 6", "confirm 6")[:3] == ("–", "6?", "UNSTABLE_OFFSET_COMMIT")
    assert ends("txn 6", "confirm 6", "marker")[:2] == ("6", "–")
    assert ends("txn 6", "confirm 6", "abort")[:2] == ("–", "–")
    assert ends("txn 6", "confirm 6", "commit 4", "confirm 4", "marker")[0] == "4"


@pytest.mark.parametrize(
    "script",
    [
        (),
        ("commit",),
        ("commit x",),
        ("fly 5",),
        ("confirm 5",),
        ("answer 5",),
        ("commit 5", "commit 5"),
        ("txn 5", "marker"),
    ],
)
def test_a_script_that_cannot_be_is_told(script):
    with pytest.raises(kg.UsageError):
        course.Flight(*script)


def test_a_flight_steps_around_and_tells_all_in_its_static_form():
    flight = course.Flight("commit 5", "confirm 5", "commit 6", "late 6")
    shown = bundle(flight)
    for form in ("text/plain", "text/html"):
        assert "6 6 late: REQUEST_TIMED_OUT" in shown[form] and "6 or 5" in shown[form]
    assert "step 1 of 6" in flight.view.value
    flight.previous.click()
    assert "step 6 of 6" in flight.view.value and "6 or 5, if" in flight.view.value
    flight.next.click()
    assert "step 1 of 6" in flight.view.value
    longest = course.Flight("commit 5", "confirm 5", "txn 6", "confirm 6", "commit 4", "confirm 4", "marker")
    lines = [*longest.static_text().splitlines(), *re.sub("<.*?>", "", longest.view.value).splitlines()]
    assert max(map(len, lines)) < 92, "it fits on a projector"


@pytest.mark.parametrize("name", ["3.9.2-commits", "3.9.2-txn", "3.9.2-fetch", "1.0.1-versions"])
def test_a_conversation_is_answered_as_its_broker_did(name):
    """data/conversations: request by request, lists in any order."""
    talk = course.conversation(name)
    assert len(talk) > 30 and [each.n for each in talk if each.ours != each.broker] == []


def test_the_broker_refuses_metadata_as_the_exercise_says():
    """3.9.2-commits 10 to 15: 4096 and 4097 of m, of ü, of 𝄞."""
    refused = {c.n for c in course.commits(course.conversation("3.9.2-commits")) if c.broker.name.endswith("TOO_LARGE")}
    fits = EXERCISES["fits"].correct
    assert refused == {
        c.n for c in course.commits(course.conversation("3.9.2-commits")) if not fits(c.metadata, 4096)
    } == {11, 12, 15}  # fmt: skip


def test_a_commit_made_again_leaves_the_brokers_batch():
    """dashboard's second batch in the story (act 3): byte for byte, but for the offset it begins at."""
    real = list(kg.open_log(DATA / "3.9.2" / "__consumer_offsets-38"))
    broker = course.coordinator(now_ms=0)
    course.commit_again(broker, real[1])
    (mine,) = broker.manager.logs.read(38)
    assert (mine.size, mine.crc, mine.count) == (real[1].size, real[1].crc, 3)
    with pytest.raises(kg.UsageError):
        course.commit_again(broker, next(iter(kg.open_log(DATA / "3.9.2" / "__consumer_offsets-9"))))
