"""`pull` and the responses that a healthy broker on a quiet machine does not give.

The responses are made by hand from batches that a real broker wrote. tests/broker pulls from real brokers.
"""

from pathlib import Path

import pytest

pytest.importorskip("kafka", reason="no kafka-python")

import kafkagroups as kg
from tests.repair.fake_broker import TOPIC, FakeBroker

(SEGMENT,) = Path("data/harbour/3.9.2/__consumer_offsets-9").glob("*.log")
LOG = SEGMENT.read_bytes()
BATCHES = list(kg.open_log(SEGMENT))
END = BATCHES[-1].next_offset


def from_batch(number):
    return LOG[BATCHES[number].position :]


@pytest.fixture
def broker(quick):
    return FakeBroker(LOG, END)


@pytest.fixture
def pulled(broker, pull, tmp_path):
    """Pull from a broker that answers fetches with (error code, records, high watermark), one after another.

    The last answer is repeated. Return the pulled partition, the problems, and the log that was written.
    """

    def call(*fetched):
        answers = list(fetched)

        def answer(response):
            (partition,) = response.responses[0].partitions
            values = answers.pop(0) if len(answers) > 1 else answers[0]
            partition.error_code, partition.records, partition.high_watermark = values
            return response

        broker.answer_fetch = answer
        with broker.running() as address:
            status, partitions, problems = pull(address)
        assert status == bool(problems)
        return partitions.get("0"), problems, kg.open_log(tmp_path / "pulled" / "__consumer_offsets-0")

    return call


def offsets(log):
    found = [batch.base_offset for batch in log]
    assert log.damage is None
    return found


ALL = [batch.base_offset for batch in BATCHES]


def test_a_partial_batch_at_the_end_is_requested_again(broker, pulled):
    """The first response ends in the middle of the third batch: the next request begins at the third."""
    cut = LOG[: BATCHES[2].position + 30]
    _, problems, log = pulled((0, cut, END), (0, from_batch(2), END))
    fetches = [request.topics[0].partitions[0] for request in broker.requests if request.name == "FetchRequest"]
    assert [partition.fetch_offset for partition in fetches] == [0, BATCHES[2].base_offset]
    assert (len(log.segments), offsets(log), problems) == (1, ALL, [])
    assert Path(log.segments[0]).read_bytes() == LOG


def test_batches_below_the_offset_are_dropped(pulled):
    """A response that begins below the requested offset does not repeat batches."""
    cut = LOG[: BATCHES[3].position]
    _, _, log = pulled((0, cut, END), (0, from_batch(1), END))
    assert offsets(log) == ALL


def test_nothing_above_the_high_watermark_of_the_beginning(pulled):
    """Batches that were appended during the pull are not pulled."""
    later = bytearray(LOG[: BATCHES[0].size])
    later[:8] = END.to_bytes(8, "big")
    partition, _, log = pulled((0, LOG + bytes(later), END + 1))
    assert offsets(log) == ALL and partition["next"] == END


def test_a_gap_at_the_end(pulled):
    """If the cleaner has removed all batches up to the high watermark, an empty response ends the pull."""
    partition, problems, log = pulled((0, LOG[: BATCHES[4].position], END), (0, b"", END))
    assert offsets(log) == ALL[:4]
    assert (partition["next"], problems) == (END, [])


def test_a_log_start_inside_a_batch(broker, pulled):
    """The log start is in the middle of a batch. The batch comes whole, and the segment has its base offset as name."""
    wide = next(batch for batch in BATCHES if batch.last_offset > batch.base_offset)
    broker.topics[TOPIC] = [(wide.base_offset + 1, END)]
    partition, _, log = pulled((0, LOG[wide.position :], END))
    assert Path(log.segments[0]).name == f"{wide.base_offset:020}.log"
    assert partition["first"] == wide.base_offset + 1
    assert offsets(log) == [offset for offset in ALL if offset >= wide.base_offset]


def test_a_leader_that_moves(broker, pull, tmp_path):
    """NOT_LEADER_OR_FOLLOWER: the request is sent to the new leader, which is another broker."""
    new_leader = FakeBroker(LOG, END)

    def answer(response):
        response.responses[0].partitions[0].error_code = 6
        broker.leader = 2
        return response

    broker.answer_fetch = answer
    with new_leader.running() as address, broker.running() as bootstrap:
        broker.others[2] = int(address.partition(":")[2])
        _, _, problems = pull(bootstrap)
    assert (broker.asked["Fetch"], new_leader.asked["Fetch"], problems) == (1, 1, [])
    assert offsets(kg.open_log(tmp_path / "pulled" / "__consumer_offsets-0")) == ALL


def test_a_request_is_not_repeated_forever(broker, pulled, quick):
    """After the last wait, the message contains how far the pull came. The pulled batches stay."""
    _, (line,), log = pulled((0, LOG[: BATCHES[2].position], END), (6, None, -1))
    assert broker.asked["Fetch"] == 2 + len(quick)
    assert offsets(log) == ALL[:2]
    assert line.startswith(f"__consumer_offsets-0: pulled up to offset {BATCHES[2].base_offset}, not {END}: NOT_LEADER")


def test_no_leader(broker, pulled):
    """If a partition's brokers are down, nothing is written."""
    broker.leader = -1
    with pytest.raises(kg.UsageError, match="no such file"):
        pulled((0, LOG, END))


def test_a_leader_behind(pulled):
    """A new leader's log ends below the old one: the message contains both ends."""
    _, problems, _ = pulled((0, LOG[: BATCHES[2].position], END), (0, b"", BATCHES[2].base_offset))
    assert f"the leader's log ended at offset {END}, and now ends at {BATCHES[2].base_offset}" in problems[0]


def test_bytes_that_are_no_batch(pulled):
    """An impossible size stops the pull there. A wrong checksum does not."""
    wrong = bytearray(LOG[: BATCHES[2].position])
    wrong[BATCHES[1].position + 17] ^= 1  # the checksum
    _, problems, log = pulled((0, bytes(wrong), END), (0, b"\x01" * 200, END))
    assert Path(log.segments[0]).read_bytes() == bytes(wrong)
    assert "expected a batch of 16843021 bytes" in problems[0]


def test_a_user_who_loses_the_right(broker, pull):
    """TOPIC_AUTHORIZATION_FAILED ends the pull immediately."""

    def refuse(response):
        response.responses[0].partitions[0].error_code = 29
        return response

    broker.answer_fetch = refuse
    with broker.running() as address:
        status, _, (line,) = pull(address)
    assert status == 2 and "TOPIC_AUTHORIZATION_FAILED" in line
