"""`pull` and the responses that a healthy broker on a quiet machine does not give.

The responses are made by hand from batches that a real broker wrote. tests/broker pulls from real brokers.
"""

from pathlib import Path

import pytest

pytest.importorskip("kafka", reason="no kafka-python")

import kafkagroups as kg
from kafkagroups import UsageError
from kafkagroups.repair import client
from kafkagroups.repair.client import TOPIC
from kafkagroups.repair.pull import pull
from tests.repair.fake_broker import FakeBroker

(SEGMENT,) = Path("data/harbour/3.9.2/__consumer_offsets-9").glob("*.log")
LOG = SEGMENT.read_bytes()
BATCHES = list(kg.open_log(SEGMENT))
END = BATCHES[-1].next_offset


def from_batch(number):
    return LOG[BATCHES[number].position :]


@pytest.fixture
def broker(monkeypatch):
    monkeypatch.setattr(client, "RETRY_DELAYS", (0.01, 0.01))
    return FakeBroker(LOG, END)


@pytest.fixture
def pulled(broker, tmp_path):
    """Pull from a broker that answers fetches with (error code, records, high watermark), one after another.

    The last answer is repeated. Return the result and the log that was written.
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
            said = pull(address, tmp_path / "pulled")
        return said, kg.open_log(tmp_path / "pulled" / "__consumer_offsets-0")

    return call


def offsets(log):
    found = [batch.base_offset for batch in log]
    assert log.damage is None
    return found


ALL = [batch.base_offset for batch in BATCHES]


def test_a_partial_batch_at_the_end_is_requested_again(broker, pulled):
    """The first response ends in the middle of the third batch: the next request begins at the third."""
    cut = LOG[: BATCHES[2].position + 30]
    said, log = pulled((0, cut, END), (0, from_batch(2), END))
    fetches = [request.topics[0].partitions[0] for request in broker.requests if request.name == "FetchRequest"]
    assert [partition.fetch_offset for partition in fetches] == [0, BATCHES[2].base_offset]
    assert (tuple(log.segments), offsets(log), said.problems) == ((log.segments[0],), ALL, [])
    assert Path(log.segments[0]).read_bytes() == LOG


def test_batches_below_the_offset_are_dropped(pulled):
    """A response that begins below the requested offset does not repeat batches."""
    cut = LOG[: BATCHES[3].position]
    _, log = pulled((0, cut, END), (0, from_batch(1), END))
    assert offsets(log) == ALL


def test_nothing_above_the_high_watermark_of_the_beginning(pulled):
    """Batches that were appended during the pull are not pulled."""
    later = bytearray(LOG[: BATCHES[0].size])
    later[:8] = END.to_bytes(8, "big")
    said, log = pulled((0, LOG + bytes(later), END + 1))
    assert offsets(log) == ALL and said.partitions[0].next == END


def test_a_gap_at_the_end(pulled):
    """If the cleaner has removed all batches up to the high watermark, an empty response ends the pull."""
    said, log = pulled((0, LOG[: BATCHES[4].position], END), (0, b"", END))
    assert offsets(log) == ALL[:4]
    assert (said.partitions[0].next, said.problems) == (END, [])


def test_a_log_start_inside_a_batch(broker, pulled):
    """The log start is in the middle of a batch. The batch comes whole, and the segment has its base offset as name."""
    wide = next(batch for batch in BATCHES if batch.last_offset > batch.base_offset)
    broker.topics[TOPIC] = [(wide.base_offset + 1, END)]
    said, log = pulled((0, LOG[wide.position :], END))
    assert Path(log.segments[0]).name == f"{wide.base_offset:020}.log"
    assert said.partitions[0].first == wide.base_offset + 1
    assert offsets(log) == [offset for offset in ALL if offset >= wide.base_offset]


def test_a_leader_that_moves(broker, pulled, tmp_path):
    """NOT_LEADER_OR_FOLLOWER: the request is sent to the new leader, which is another broker."""
    new_leader = FakeBroker(LOG, END)

    def answer(response):
        response.responses[0].partitions[0].error_code = 6
        broker.leader = 2
        return response

    broker.answer_fetch = answer
    with new_leader.running() as address, broker.running() as bootstrap:
        broker.others[2] = int(address.partition(":")[2])
        said = pull(bootstrap, tmp_path / "pulled")
    assert (broker.asked["Fetch"], new_leader.asked["Fetch"], said.problems) == (1, 1, [])
    assert offsets(kg.open_log(tmp_path / "pulled" / "__consumer_offsets-0")) == ALL


def test_a_request_is_not_repeated_forever(broker, pulled):
    """After the last wait, the message contains how far the pull came. The pulled batches stay."""
    said, log = pulled((0, LOG[: BATCHES[2].position], END), (6, None, -1))
    assert broker.asked["Fetch"] == 2 + len(client.RETRY_DELAYS)
    assert offsets(log) == ALL[:2]
    (line,) = said.problems
    assert line.startswith(f"__consumer_offsets-0: pulled up to offset {BATCHES[2].base_offset}, not {END}: NOT_LEADER")


def test_no_leader(broker, pulled):
    """If a partition's brokers are down, nothing is written."""
    broker.leader = -1
    with pytest.raises(UsageError, match="no such file"):
        pulled((0, LOG, END))


def test_a_leader_behind(pulled):
    """A new leader's log ends below the old one: the message contains both ends."""
    said, _ = pulled((0, LOG[: BATCHES[2].position], END), (0, b"", BATCHES[2].base_offset))
    assert f"the leader's log ended at offset {END}, and now ends at {BATCHES[2].base_offset}" in said.problems[0]


def test_bytes_that_are_no_batch(pulled):
    """An impossible size stops the pull there. A wrong checksum does not."""
    wrong = bytearray(LOG[: BATCHES[2].position])
    wrong[BATCHES[1].position + 17] ^= 1  # the checksum
    said, log = pulled((0, bytes(wrong), END), (0, b"\x01" * 200, END))
    assert Path(log.segments[0]).read_bytes() == bytes(wrong)
    assert "expected a batch of 16843021 bytes" in said.problems[0]


def test_a_user_who_loses_the_right(pulled):
    """TOPIC_AUTHORIZATION_FAILED ends the pull immediately."""
    with pytest.raises(UsageError, match="TOPIC_AUTHORIZATION_FAILED"):
        pulled((29, None, -1))
