"""What a real broker and its cleaner do to logs whose load depends on a cleaning, and what `check` says about them.

Three logs: one loads until a second pass has removed a tombstone, one loads again after one pass, and one after two.
Each start of the broker loads them. Between the starts, its cleaner has run.
"""

import shutil

import pytest

import kafkagroups as kg
from tests.broker.broker import CLEANER, Broker, need_jars
from tests.command import main
from tests.history.test_check import STREAMS_OVER_CONSUMER, streams_epoch, write_log
from tests.releases.cases import loads

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client

pytestmark = pytest.mark.broker

KAFKA = "4.3.1"
DELETED_STREAMS = [STREAMS_OVER_CONSUMER[0], STREAMS_OVER_CONSUMER[3], streams_epoch(None)]


@pytest.fixture
def broker(tmp_path):
    """A broker with three partitions. Its cleaner cleans every closed segment, and tombstones expire immediately."""
    need_jars(KAFKA)
    broker = Broker(KAFKA, tmp_path, 3)
    with open(tmp_path / "server.properties", "a") as properties:
        properties.write(CLEANER)
        # The cleaner looks rarely, so that each start has loaded the partitions before it cleans them.
        properties.write("log.cleaner.backoff.ms=5000\n")
    try:
        client.create_offsets_topic(broker)
        yield broker
    finally:
        broker.stop()


def with_new_segment(folder, out):
    """Copy a log, and append a commit in a new active segment."""
    assert main(["edit", str(folder), "--out", str(out), "--roll", "--commit", "filler:t-0=1"]) == 0
    return out


def start_and_clean(broker):
    """Start the broker until all partitions are loaded and cleaned. Return the partitions that failed to load."""
    broker.start()
    broker.wait_until_loaded()
    broker.wait_for(r"cleaned log __consumer_offsets-(\d+)", 3)
    failed = broker.failed()
    broker.stop()
    return failed


def add_segment(broker, tmp_path):
    """Append a commit in a new segment of each partition, so that the broker's cleaner has records for another pass."""
    for number in range(3):
        folder = broker.partition(number)
        out = with_new_segment(folder, tmp_path / f"grown-{number}" / folder.name)
        shutil.copy(max(out.glob("*.log")), folder)
    (broker.folder / "data" / ".kafka_cleanshutdown").unlink(missing_ok=True)


def test_what_the_cleaner_does_to_the_next_load(broker, tmp_path):
    same_drop = next(each for each in loads() if each.case["id"] == "r19862-same-drop")
    sources = [
        write_log(tmp_path / "replaced", STREAMS_OVER_CONSUMER),
        same_drop.folder,
        write_log(tmp_path / "deleted", DELETED_STREAMS),
    ]
    assert [kg.check(source, kafka=KAFKA).loads for source in sources] == [True, False, False]

    for number, source in enumerate(sources):
        out = tmp_path / "logs" / f"__consumer_offsets-{number}"
        out.parent.mkdir(exist_ok=True)
        with_new_segment(source, out)
    broker.place(tmp_path / "logs")
    assert start_and_clean(broker) == {1, 2}
    add_segment(broker, tmp_path)
    assert start_and_clean(broker) == {2}
    broker.start()
    broker.wait_until_loaded()
    assert broker.failed() == {0}
    verdict = kg.check(broker.folder / "data", kafka=KAFKA)
    assert {number for number, partition in verdict.partitions.items() if not partition.loads} == {0}
