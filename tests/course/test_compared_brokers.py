"""One script, several brokers: the answers and the records side by side, as text and as HTML."""

import re

import pytest

from kafkagroups import UsageError, course
from kafkagroups.coordinator import ConsumerProtocolConsumer, HeldLogs, OffsetCommit, TopicPartition

ORDERS = TopicPartition("orders", 0)
PROMO = TopicPartition("promo-spring", 0)
PAID = {"transactional_id": "till", "producer_id": 7, "producer_epoch": 0}


def last_offset(broker):
    """A group loses its last offset: up to 3.9 it is deleted, in 4.x it stays."""
    yield "commit", broker.offset_commit("dashboard", {PROMO: OffsetCommit(5)})
    yield "fetch", broker.offset_fetch("dashboard")
    yield "the topic is deleted", broker.partitions_deleted([PROMO])
    yield "list", broker.list_groups()


def consumer_group(broker):
    consumer = ConsumerProtocolConsumer(broker, "billing", "billing-1", ("orders",), course.broker.SHOP_TOPICS)
    yield "heartbeat", consumer.request_heartbeat()
    yield "describe", broker.consumer_group_describe(["billing"])
    yield "a commit", broker.offset_commit("billing", {ORDERS: OffsetCommit(1)}, generation=2, member_id="billing-1-1")


def test_the_steps_have_the_answers_and_records_of_each_broker():
    compared = course.compare_brokers(last_offset)
    assert compared.kafka == ("4.3.1", "3.9.2")
    commit, fetch, deletion, listed = compared.steps
    assert commit.answers == ("NONE", "NONE") and not commit.differs
    assert commit.records == (("dashboard: offset of promo-spring-0 = 5",),) * 2
    assert fetch.answers == ("promo-spring-0: 5",) * 2 and fetch.records == ((), ())
    gone = "dashboard: offset of promo-spring-0 deleted"
    assert deletion.records == ((gone,), (gone,))
    assert listed.answers == ("NONE; dashboard (classic, Empty)", "NONE; nothing")
    assert compared.differences == ["list"]


def test_a_consumer_group_beside_a_broker_that_has_none():
    compared = course.compare_brokers(consumer_group, ("3.9.2", "4.3.1", "4.4.0"))
    heartbeat, described, commit = compared.steps
    assert heartbeat.answers == ("UNSUPPORTED_VERSION", "epoch 2, 3 partitions", "epoch 2, 3 partitions")
    assert heartbeat.records[0] == () and heartbeat.records[1] == heartbeat.records[2]
    assert heartbeat.records[1] == (
        "billing: member billing-1",
        "billing: group epoch 2",
        "billing: target of billing-1: orders-0 orders-1 orders-2",
        "billing: assignment epoch 2",
        "billing: current assignment of billing-1: epoch 2, state 0, orders-0 orders-1 orders-2",
    )
    assert described.answers[1] == "Stable, group epoch 2, 1 member"
    assert commit.answers[1:] == ("NONE", "NONE")


def test_an_answer_can_arrive_later_and_a_transaction_ends_with_a_marker():
    def script(broker):
        held = HeldLogs(broker.manager.logs)
        broker = course.start_broker(held, broker.settings.kafka, offsets_topic_num_partitions=1)
        yield "commit", broker.offset_commit("billing", {ORDERS: OffsetCommit(1)})
        yield "fetch", broker.offset_fetch("billing", [ORDERS])
        yield "the log confirms", held.release()
        held.holds_answers = False
        yield "in a transaction", broker.txn_offset_commit("billing", {ORDERS: OffsetCommit(2)}, **PAID)
        held.logs.append_marker(0, 7, 0, commits=True, timestamp=broker.clock.now_ms)
        yield "EndTxn", "COMMIT"

    commit, _, _, paid, end = course.compare_brokers(script).steps
    assert commit.answers == ("waits, then NONE",) * 2
    assert paid.records == (("billing: offset of orders-0 = 2, producer 7",),) * 2
    assert end.records == (("commit marker, producer 7",),) * 2


def test_one_step_can_be_returned_and_a_missing_one_is_a_dash():
    compared = course.compare_brokers(lambda broker: ("heartbeat", broker.heartbeat("g", 1, "m")))
    assert compared.steps[0].answers == ("UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID")

    def script(broker):
        yield "always", ""
        if broker.settings.is_at_least(4, 0):
            yield "sometimes", "yes"

    assert course.compare_brokers(script).steps[1].answers == ("yes", "–")


def test_the_text_marks_what_differs_and_says_once_what_does_not():
    lines = repr(course.compare_brokers(last_offset)).splitlines()
    assert lines[0].split() == ["Kafka", "4.3.1", "Kafka", "3.9.2"]
    differing = lines[lines.index("list   ◀ differs") + 1]
    assert re.fullmatch(r" +NONE; dashboard \(classic, Empty\) +NONE; nothing", differing)
    answer, *record = lines[lines.index("commit") + 1 :][:3]
    assert answer == "    NONE"
    assert " ".join("".join(record).split()) == "log ← dashboard: offset of promo-spring-0 = 5"
    assert all(len(line) <= 100 for line in lines)


def test_the_page_marks_what_differs_without_colours_of_its_own_theme():
    """Ink and page are the notebook's; every cell of a narrow page says which version it belongs to."""
    page = course.compare_brokers(last_offset)._repr_html_()
    assert len(re.findall(r'<tr class="differs">', page)) == 1 and page.count("◀ differs") == 1
    assert "color: inherit" in page and "max-width" in page
    assert [page.count(f'data-kafka="Kafka {name}"') for name in ("4.3.1", "3.9.2", "4.3.1 and 3.9.2")] == [1, 1, 3]
    same = course.compare_brokers(lambda broker: ("a step", "an answer"))._repr_html_()
    assert re.findall('scope="col">([^<]+)', same) == ["step", "Kafka 4.3.1 and 3.9.2"], "nothing differs"
    hostile = course.compare_brokers(lambda broker: ("<b>", "<script>"))._repr_html_()
    assert "<script>" not in hostile and "&lt;script&gt;" in hostile


def test_a_version_that_does_not_run_is_refused():
    with pytest.raises(UsageError):
        course.compare_brokers(last_offset, ("3.9.2", "5.0.0"))
