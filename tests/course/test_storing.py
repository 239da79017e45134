"""The tools of lesson 04: commits in flight, and recorded conversations played again."""

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import Errors
from tests.course.test_log_lines import DATA


def final_places(*script):
    """Return cache, pending offsets, the answer to a stable fetch and the clients' answers at the end of a script."""
    now = course.CommitScript(*script).steps[-1].places
    return now.cache, now.pending, now.stable_fetch, now.responses


def test_a_commit_is_prepared_appended_and_cached_in_this_order():
    """storeOffsets (3.9): prepareOffsetCommit, appendForGroup, putCacheCallback; a fetch sees the cache."""
    moments = course.CommitScript("commit 5", "confirm 5").steps
    assert [(m.places.pending, m.places.log, m.places.cache) for m in moments] == [
        ("5", "–", "–"),
        ("5", "5", "–"),
        ("–", "5", "5"),
    ]
    assert [m.places.responses for m in moments] == ["5: waits", "5: waits", "5: NONE"]
    assert [(m.answer_from_whole_log, m.answer_from_confirmed_log) for m in moments] == [
        ("–", "–"),
        ("5", "–"),
        ("5", "5"),
    ]


def test_a_time_out_leaves_a_record_that_is_not_cached():
    """The callback of a failed append removes the pending entry. The log keeps its record."""
    flight = course.CommitScript("commit 5", "confirm 5", "commit 6", "late 6")
    last = flight.steps[-1]
    assert last.places == ("–", "5 6", "5", "5", "5: NONE, 6: REQUEST_TIMED_OUT")
    assert (last.answer_from_whole_log, last.answer_from_confirmed_log) == ("6", "5")
    assert final_places("refuse 6") == ("–", "–", "–", "6: COORDINATOR_NOT_AVAILABLE")


def test_the_later_record_wins_whichever_is_answered_first():
    """onOffsetCommitAppend (3.9): olderThan compares positions in the log."""
    for order in (("confirm 6", "confirm 7"), ("confirm 7", "confirm 6")):
        assert final_places("commit 6", "commit 7", *order) == ("7", "–", "7", "6: NONE, 7: NONE")


def test_the_place_in_the_log_decides_while_something_is_pending():
    """onOffsetCommitAppend (3.9): 8 is pending, so 6 could be cached, but 7 is later in the log."""
    assert final_places("commit 6", "commit 7", "confirm 7", "commit 8", "confirm 6")[:2] == ("7", "8")


def test_a_commit_is_cached_before_its_client_gets_the_answer():
    """putCacheCallback (3.9): first the cache, then the response. A crash in between leaves 6."""
    moments = course.CommitScript("commit 5", "confirm 5", "commit 6", "cache 6", "answer 6").steps[-2:]
    assert [m.description for m in moments] == ["6 confirmed, cached", "6 answered: NONE"]
    assert [(m.places.cache, m.places.responses, m.next_answers) for m in moments] == [
        ("6", "5: NONE, 6: waits", "6"),
        ("6", "5: NONE, 6: NONE", "6"),
    ]
    assert course.CommitScript("txn 6", "cache 6").steps[-1].description == "6 confirmed"


def test_the_next_broker_loads_the_pending_offsets_of_a_transaction():
    """loadGroupsAndOffsets (3.9): offsets of a producer without a marker are pending again."""
    moments = course.CommitScript("commit 5", "confirm 5", "txn 6", "confirm 6", "commit 4", "confirm 4").steps
    assert [m.next_answers for m in moments][3:] == [
        "5",
        "5, waits: 6? or –",
        "5, waits: 6?",
        "5, waits: 6?",
        "4 or 5, waits: 6?",
        "4, waits: 6?",
    ]


def test_a_commit_is_not_cached_when_a_later_one_has_failed():
    """onOffsetCommitAppend (3.9): only while something is pending for the partition."""
    assert final_places("commit 5", "confirm 5", "commit 6", "commit 7", "late 7", "confirm 6")[0] == "5"


def test_a_transactions_offset_waits_for_its_marker_and_its_own_position_decides():
    """As in act 4 of the story: 25, committed by hand, comes after the transaction's 30."""
    assert final_places("txn 6", "confirm 6")[:3] == ("–", "6?", "UNSTABLE_OFFSET_COMMIT")
    assert final_places("txn 6", "confirm 6", "marker")[:2] == ("6", "–")
    assert final_places("txn 6", "confirm 6", "abort")[:2] == ("–", "–")
    assert final_places("txn 6", "confirm 6", "commit 4", "confirm 4", "marker")[0] == "4"


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
def test_an_impossible_script_is_refused(script):
    with pytest.raises(kg.UsageError):
        course.CommitScript(*script)


def test_the_printed_steps_fit_on_a_projector(capsys):
    """A line for each step, with the answers of the next broker."""
    course.CommitScript("commit 5", "confirm 5", "txn 6", "confirm 6", "commit 4", "confirm 4", "marker").print_steps()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "step" and len(lines) == 11
    assert max(map(len, lines)) < 92


@pytest.mark.parametrize("name", ["3.9.2-commits", "3.9.2-txn", "3.9.2-fetch", "1.0.1-versions"])
def test_a_conversation_is_answered_as_by_its_broker(name):
    """data/conversations: every request has the same answer, with lists in any order."""
    talk = course.read_exchanges(name)
    assert len(talk) > 30 and [each.number for each in talk if each.our_response != each.broker_response] == []


def test_the_broker_refuses_the_metadata_that_does_not_fit():
    """3.9.2-commits 10 to 15: 4096 and 4097 times m, ü and 𝄞."""
    refused = {
        exchange.number
        for exchange in course.read_exchanges("3.9.2-commits")
        if exchange.api == "OffsetCommit"
        for topic in exchange.broker_response["topics"]
        for partition in topic["partitions"]
        if partition["errorCode"] == Errors.OFFSET_METADATA_TOO_LARGE
    }
    assert refused == {11, 12, 15}


def test_a_repeated_commit_writes_the_brokers_batch():
    """dashboard's second batch in the story (act 3): the same bytes except for the base offset."""
    real = list(kg.open_log(DATA / "3.9.2" / "__consumer_offsets-38"))
    broker = course.start_broker(now_ms=0)
    course.commit_again(broker, real[1])
    (mine,) = broker.manager.logs.read(38)
    assert (mine.size, mine.crc, mine.count) == (real[1].size, real[1].crc, 3)
    with pytest.raises(kg.UsageError):
        course.commit_again(broker, next(iter(kg.open_log(DATA / "3.9.2" / "__consumer_offsets-9"))))
