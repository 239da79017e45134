"""`pull` against a broker that answers wrongly, slowly or not at all: a bounded wait, and one clear line."""

import time
from pathlib import Path

import pytest

pytest.importorskip("kafka", reason="no kafka-python")

import kafkagroups as kg
from tests.repair.fake_broker import SILENT, FakeBroker

pytestmark = pytest.mark.slow

(SEGMENT,) = Path("data/harbour/3.9.2/__consumer_offsets-9").glob("*.log")
LOG = SEGMENT.read_bytes()
BATCHES = list(kg.open_log(SEGMENT))
END = BATCHES[-1].next_offset
FOREVER = 2**31 - 1
"""The longest throttle time of a response, in ms: 25 days."""


@pytest.fixture
def broker():
    return FakeBroker(LOG, END, partitions=3)


@pytest.fixture
def try_pull(pull):
    """Pull with a limit of waits. Return the problems or the error in one list of lines, and what was waited for."""

    def call(broker, *options, max_wait=1):
        with broker.running() as address:
            status, _, lines = pull(address, "--max-wait", max_wait, *options)
        reports = [line for line in lines if line.startswith("waiting")]
        problems = [line for line in lines if line not in reports]
        assert bool(status) == bool(problems)
        return problems, reports

    return call


def test_a_healthy_broker(broker, try_pull, tmp_path):
    """The fake broker answers like a real one if no test changes its answers."""
    assert try_pull(broker) == ([], [])
    for number in range(3):
        (segment,) = (tmp_path / "pulled" / f"__consumer_offsets-{number}").iterdir()
        assert segment.read_bytes() == LOG


def double_topics(response):
    response.topics.append(response.topics[0])


def double_partition(response):
    response.topics[0].partitions[1].partition_index = 0


def negative_partition(response):
    response.topics[0].partitions[1].partition_index = -1


def other_topic(response):
    response.topics[0].name = "orders"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda response: response.topics.clear(), "expected metadata of the topic __consumer_offsets, found 0 topics"),
        (double_topics, "expected metadata of the topic __consumer_offsets, found 2 topics"),
        (other_topic, "expected metadata of the topic __consumer_offsets, found 1 topics"),
        (double_partition, "found a partition twice or a negative number"),
        (negative_partition, "found a partition twice or a negative number"),
    ],
)
def test_metadata_of_other_topics_or_partitions(broker, try_pull, tmp_path, change, expected):
    """A Metadata response must describe exactly the topic that was asked for, and each partition once."""

    def answer(response):
        change(response)
        return response

    broker.answer_metadata = answer
    (line,), _ = try_pull(broker)
    assert line.startswith("no broker responds: ") and expected in line
    assert list((tmp_path / "pulled").iterdir()) == []


@pytest.mark.parametrize("name", ["metadata", "listoffsets", "fetch"])
def test_a_throttle_time_of_days(broker, try_pull, name):
    """The pull does not begin a wait that is longer than its limit, and says why it ends."""

    def answer(response):
        response.throttle_time_ms = FOREVER
        return response

    setattr(broker, f"answer_{name}", answer)
    lines, reports = try_pull(broker, max_wait=5)
    assert lines and all("the limit of all waits is 5 s (--max-wait)" in line for line in lines)
    (report,) = reports
    assert report.startswith("waiting 2147483.6 s, but only ")
    assert report.endswith("asks this client to wait, because a quota is exceeded")


@pytest.mark.parametrize("name", ["apiversions", "metadata", "listoffsets", "fetch"])
def test_silence(broker, try_pull, early_reports, name):
    """A broker that never answers: one limit for all partitions together, and a report of what the pull waits for."""
    setattr(broker, f"answer_{name}", lambda response: SILENT)
    lines, reports = try_pull(broker)
    assert lines and all("the limit of all waits is 1 s (--max-wait)" in line for line in lines)
    assert reports and "waiting for 127.0.0.1:" in reports[0]
    assert sum(broker.asked.values()) < 10


def test_a_slow_broker_that_brings_data(broker, try_pull):
    """The time of responses with new batches is no wait: such a pull ends only when everything is pulled."""
    batches = iter(BATCHES)

    def answer(response):
        time.sleep(0.1)
        batch = next(batches)
        response.responses[0].partitions[0].records = LOG[batch.position : batch.position + batch.size]
        return response

    broker.answer_fetch = answer
    lines, _ = try_pull(broker, "--partitions", 0)
    assert lines == [] and broker.asked["Fetch"] * 0.1 > 1


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (0, -1), (-5, -2), (7, 3), (-(2**63), 2**63 - 1)])
def test_impossible_offsets(broker, try_pull, tmp_path, start, end):
    """A log begins at 0 or above and ends at its start or above. A partition with other offsets is not pulled."""

    def answer(response):
        for partition in response.topics[0].partitions:
            if partition.partition_index == 1:
                partition.offset = start if broker.asked["ListOffsets"] == 1 else end
        return response

    broker.answer_listoffsets = answer
    lines, _ = try_pull(broker)
    assert lines == [
        f"__consumer_offsets-1: the leader answers that the log begins at offset {start} and ends at offset {end}"
    ]
    assert sorted(folder.name[-1] for folder in (tmp_path / "pulled").iterdir()) == ["0", "2"]


def with_offset(batch, offset):
    data = LOG[batch.position : batch.position + batch.size]
    return offset.to_bytes(8, "big", signed=True) + data[8:]


@pytest.mark.parametrize(
    "records",
    [
        with_offset(BATCHES[0], -1),
        with_offset(BATCHES[0], -(2**63)),
        LOG[: BATCHES[3].position] + with_offset(BATCHES[3], 0),
        LOG[: BATCHES[3].position] + with_offset(BATCHES[3], BATCHES[3].base_offset - 1),
    ],
)
def test_batches_at_impossible_offsets(broker, try_pull, tmp_path, records):
    """Negative offsets, and offsets that do not rise, end the pull of the partition. The batches before them stay."""

    def answer(response):
        for partition in response.responses[0].partitions:
            partition.records = records if broker.asked["Fetch"] == 1 else records[BATCHES[3].position :]
        return response

    broker.answer_fetch = answer
    lines, _ = try_pull(broker, "--partitions", 0)
    assert "expected a batch from offset" in lines[0]
    (segment,) = (tmp_path / "pulled" / "__consumer_offsets-0").iterdir()
    assert LOG.startswith(segment.read_bytes())


def test_the_option_max_wait(pull):
    """It is above 0; what it limits is shown above."""
    assert pull("h:1", "--max-wait", 0)[0] == 2
