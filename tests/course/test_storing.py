"""The tools of lesson 04: commits in flight, and recorded conversations played again."""

import pytest

import kafkagroups as kg
from kafkagroups import course
from kafkagroups.coordinator import Errors, OffsetCommit, TopicPartition
from kafkagroups.course.exercises.catalog import EXERCISES
from kafkagroups.course.figures.commit_and_power_cut import watch_commit
from tests.course.test_log_lines import DATA

BOTH = pytest.mark.parametrize("kafka", ["3.9.2", "4.3.1"])
ORDERS_0 = TopicPartition("orders", 0)


class Dashboard:
    """The group `dashboard` on a broker that waits for its replicas."""

    def __init__(self, kafka, *confirmed):
        self.broker = course.start_broker(kafka=kafka, holds_answers=True)
        self.log = self.broker.manager.logs
        for offset in confirmed:
            self.commit(offset)
            self.log.release()

    def commit(self, offset):
        return self.broker.offset_commit("dashboard", {ORDERS_0: OffsetCommit(offset)})

    def fetch(self):
        return self.broker.offset_fetch("dashboard", [ORDERS_0]).value.offsets[ORDERS_0].offset

    def fetch_from_next_broker(self):
        """Return what the next broker answers with the whole log, and with the first record only."""
        followers = [course.start_follower(self.broker, "dashboard", end) for end in (None, 1)]
        return tuple(each.offset_fetch("dashboard", [ORDERS_0]).value.offsets[ORDERS_0].offset for each in followers)


# What each version notes or has applied while the commit of 6 is on its way, from the step before it to the answer.
NEWEST = {"3.9.2": ["–", "6", "6", "–", "–"], "4.3.1": ["5", "6", "6", "6", "6"]}


@pytest.mark.parametrize("kafka", NEWEST)
def test_a_commit_is_shown_when_it_is_confirmed_and_answered_after_that(kafka):
    """storeOffsets and putCacheCallback (3.9); CoordinatorRuntime: replay, append, updateLastCommittedOffset (4.3)."""
    moments = watch_commit(kafka)
    assert [moment.newest for moment in moments] == NEWEST[kafka]
    assert [(m.log, m.fetched, m.answer) for m in moments] == [
        ("5", "5", "–"),
        ("5", "5", "waits"),
        ("5 6", "5", "waits"),
        ("5 6", "6", "waits"),
        ("5 6", "6", "NONE"),
    ]


@BOTH
def test_what_a_crash_leaves(kafka):
    """The solution of the exercise is what both coordinators do: "?" if it depends on the copy of the log."""
    answered = Dashboard(kafka, 5, 6)
    appended = Dashboard(kafka, 5)
    appended.commit(6)
    refused = Dashboard(kafka, 5)
    refused.log.append_error = Errors.NOT_ENOUGH_REPLICAS
    assert refused.commit(6).value == {ORDERS_0: Errors.COORDINATOR_NOT_AVAILABLE}
    late = Dashboard(kafka, 5)
    answer = late.commit(6)
    late.log.release(error=Errors.REQUEST_TIMED_OUT)
    assert answer.value[ORDERS_0] is not Errors.NONE

    # A confirmed record is in every copy, with or without an answer.
    whole_log, _ = answered.fetch_from_next_broker()
    left: list[int | str] = [whole_log, whole_log]
    for dashboard in (appended, refused, late):
        answers = set(dashboard.fetch_from_next_broker())
        left.append(answers.pop() if len(answers) == 1 else "?")
    assert tuple(left) == EXERCISES["after_the_crash"].correct


def test_the_broker_refuses_the_metadata_that_does_not_fit():
    """3.9.2-commits 10 to 15: 4096 and 4097 times m, ü and 𝄞."""
    refused = {
        line["n"]
        for line in course.play_conversation("3.9.2-commits").lines
        if line.get("api") == "OffsetCommit" and line["response"]
        for topic in line["response"]["topics"]
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
