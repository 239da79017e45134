"""`pull` and the responses that a healthy broker on a quiet machine does not give.

The responses are made by hand from batches that a real broker wrote. tests/broker pulls from real brokers.
"""

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import kafkagroups as kg
from kafkagroups import UsageError
from kafkagroups.repair import client
from kafkagroups.repair.pull import pull

pytest.importorskip("kafka", reason="no kafka-python")

(SEGMENT,) = Path("data/harbour/3.9.2/__consumer_offsets-9").glob("*.log")
LOG = SEGMENT.read_bytes()
BATCHES = list(kg.open_log(SEGMENT))
END = BATCHES[-1].next_offset


def from_batch(number):
    return LOG[BATCHES[number].position :]


class Scripted:
    """A cluster of one partition. `fetched` contains each response: (error code, records, high watermark)."""

    def __init__(self, fetched, start=0, leaders=(1,)):
        self.fetched = list(fetched)
        self.start = start
        self.leaders = list(leaders)
        self.asked = []
        self.waits = 0

    def ask(self, cluster, node, request):
        if request.name == "MetadataRequest":
            leader = self.leaders.pop(0) if len(self.leaders) > 1 else self.leaders[0]
            partition = SimpleNamespace(partition_index=0, leader_id=leader)
            topic = SimpleNamespace(name=client.TOPIC, error_code=0, partitions=[partition])
            return SimpleNamespace(name="MetadataResponse", topics=[topic])
        if request.name == "ListOffsetsRequest":
            earliest = request.topics[0].partitions[0].timestamp == -2
            return self.answer("ListOffsetsResponse", 0, offset=self.start if earliest else END)
        self.asked.append((node, request.topics[0].partitions[0].fetch_offset))
        code, records, high_watermark = self.fetched.pop(0) if len(self.fetched) > 1 else self.fetched[0]
        return self.answer("FetchResponse", code, records=records, high_watermark=high_watermark)

    def answer(self, name, code, **fields):
        partition = SimpleNamespace(partition_index=0, error_code=code, **fields)
        topics = [SimpleNamespace(name=client.TOPIC, topic=client.TOPIC, partitions=[partition])]
        return SimpleNamespace(name=name, topics=topics, responses=topics)

    def run(self, sleep, seconds):
        self.waits += 1

    def sleep(self):
        raise AssertionError("only `run` calls it")


@pytest.fixture
def pulled(tmp_path, monkeypatch):
    """Pulls from a scripted cluster; returns the result and the log that was written."""

    def call(scripted):
        manager = SimpleNamespace(
            cluster=SimpleNamespace(brokers=lambda: [SimpleNamespace(node_id=1)], update_metadata=lambda answer: None)
        )

        @contextmanager
        def connected(bootstrap, security, waits):
            yield client.Cluster(scripted, manager, [])

        monkeypatch.setattr("kafkagroups.repair.pull.connect", connected)
        monkeypatch.setattr("kafkagroups.repair.client.send", scripted.ask)
        said = pull("any:1", tmp_path / "pulled")
        return said, kg.open_log(tmp_path / "pulled" / "__consumer_offsets-0")

    return call


def offsets(log):
    found = [batch.base_offset for batch in log]
    assert log.damage is None
    return found


ALL = [batch.base_offset for batch in BATCHES]


def test_a_partial_batch_at_the_end_is_requested_again(pulled):
    """The first response ends in the middle of the third batch: the next request begins at the third."""
    cut = LOG[: BATCHES[2].position + 30]
    scripted = Scripted([(0, cut, END), (0, from_batch(2), END)])
    said, log = pulled(scripted)
    assert [offset for _, offset in scripted.asked] == [0, BATCHES[2].base_offset]
    assert (tuple(log.segments), offsets(log), said.problems) == ((log.segments[0],), ALL, [])
    assert Path(log.segments[0]).read_bytes() == LOG


def test_batches_below_the_offset_are_dropped(pulled):
    """A response that begins below the requested offset does not repeat batches."""
    cut = LOG[: BATCHES[3].position]
    _, log = pulled(Scripted([(0, cut, END), (0, from_batch(1), END)]))
    assert offsets(log) == ALL


def test_nothing_above_the_high_watermark_of_the_beginning(pulled):
    """Batches that were appended during the pull are not pulled."""
    later = bytearray(LOG[: BATCHES[0].size])
    later[:8] = END.to_bytes(8, "big")
    said, log = pulled(Scripted([(0, LOG + bytes(later), END + 1)]))
    assert offsets(log) == ALL and said.partitions[0].next == END


def test_a_gap_at_the_end(pulled):
    """If the cleaner has removed all batches up to the high watermark, an empty response ends the pull."""
    said, log = pulled(Scripted([(0, LOG[: BATCHES[4].position], END), (0, b"", END)]))
    assert offsets(log) == ALL[:4]
    assert (said.partitions[0].next, said.problems) == (END, [])


def test_a_log_start_inside_a_batch(pulled):
    """The log start is in the middle of a batch. The batch comes whole, and the segment has its base offset as name."""
    wide = next(batch for batch in BATCHES if batch.last_offset > batch.base_offset)
    said, log = pulled(Scripted([(0, LOG[wide.position :], END)], start=wide.base_offset + 1))
    assert Path(log.segments[0]).name == f"{wide.base_offset:020}.log"
    assert said.partitions[0].first == wide.base_offset + 1
    assert offsets(log) == [offset for offset in ALL if offset >= wide.base_offset]


def test_a_leader_that_moves(pulled):
    """NOT_LEADER_OR_FOLLOWER: the request is sent to the new leader."""
    scripted = Scripted([(6, None, -1), (0, LOG, END)], leaders=[1, 2])
    said, log = pulled(scripted)
    assert scripted.asked == [(1, 0), (2, 0)]
    assert offsets(log) == ALL and said.problems == []


def test_a_request_is_not_repeated_forever(pulled):
    """After the last wait, the message contains how far the pull came. The pulled batches stay."""
    scripted = Scripted([(0, LOG[: BATCHES[2].position], END), (6, None, -1)])
    said, log = pulled(scripted)
    assert scripted.waits == len(client.RETRY_DELAYS)
    assert offsets(log) == ALL[:2]
    (line,) = said.problems
    assert line.startswith(f"__consumer_offsets-0: pulled up to offset {BATCHES[2].base_offset}, not {END}: NOT_LEADER")


def test_no_leader(pulled):
    """If a partition's brokers are down, nothing is written."""
    with pytest.raises(UsageError, match="no such file"):
        pulled(Scripted([(0, LOG, END)], leaders=[-1]))


def test_a_leader_behind(pulled):
    """A new leader's log ends below the old one: the message contains both ends."""
    said, _ = pulled(Scripted([(0, LOG[: BATCHES[2].position], END), (0, b"", BATCHES[2].base_offset)]))
    assert f"the leader's log ended at offset {END}, and now ends at {BATCHES[2].base_offset}" in said.problems[0]


def test_bytes_that_are_no_batch(pulled):
    """An impossible size stops the pull there. A wrong checksum does not."""
    wrong = bytearray(LOG[: BATCHES[2].position])
    wrong[BATCHES[1].position + 17] ^= 1  # the checksum
    said, log = pulled(Scripted([(0, bytes(wrong), END), (0, b"\x01" * 200, END)]))
    assert Path(log.segments[0]).read_bytes() == bytes(wrong)
    assert "expected a batch of 16843021 bytes" in said.problems[0]


def test_a_user_who_loses_the_right(pulled):
    """TOPIC_AUTHORIZATION_FAILED ends the pull immediately."""
    with pytest.raises(UsageError, match="TOPIC_AUTHORIZATION_FAILED"):
        pulled(Scripted([(29, None, -1)]))
