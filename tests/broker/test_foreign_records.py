"""A program writes a commit into `__consumer_offsets` of a running broker."""

import time

import pytest

import kafkagroups as kg
from tests.broker.broker import VERSIONS, Broker, need_jars
from tests.handmade import LogRecord, OffsetCommitValue, encode_batch

pytest.importorskip("kafka", reason="no kafka-python")
from tests.broker import client
from tests.groups.small_logs import START, offset_record

pytestmark = pytest.mark.broker

OUT_OF_SYNC = "is out of sync with the underlying log"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_running_coordinator_and_a_record_of_another_program(version, tmp_path):
    """Both answer from memory. At its next own write, 4.3.1 sees that the offset is not the expected one, and reloads.

    The commit that finds the difference is answered NOT_COORDINATOR, although its record is in the log. 3.9.2 sees
    nothing until its next load.
    """
    need_jars(version)
    is_new = version != "3.9.2"
    broker = Broker(version, tmp_path, 1)
    try:
        broker.start()
        with client.asking(broker.address, client_id=client.ADMIN_CLIENT_ID) as ask:
            client.find_coordinator(ask, "any")
            broker.wait_until_loaded()
            assert client.create_topic(ask, "t", 1) == client.NONE
            assert client.commit(ask, "g", "t", 0, 1) == client.NONE
            record = LogRecord(0, START, *offset_record(0, OffsetCommitValue(50, commit_timestamp=START)))
            assert client.produce(ask, "__consumer_offsets", 0, encode_batch([record])) == client.NONE
            assert read_offset(ask, "g") == 1

            error = client.commit(ask, "h", "t", 0, 2)
            assert error == (client.NOT_COORDINATOR if is_new else client.NONE)
            wait_until_reloaded(ask)
            assert read_offset(ask, "g") == (50 if is_new else 1)
            assert read_offset(ask, "h") == 2
            assert (OUT_OF_SYNC in broker.log) == is_new
        broker.stop()
        broker.start()
        broker.wait_until_loaded()
        with client.asking(broker.address) as ask:
            assert read_offset(ask, "g") == 50
    finally:
        broker.stop()
    assert [batch.base_offset for batch in kg.open_log(broker.partition(0))] == [0, 1, 2]


def read_offset(ask, group):
    answer = client.offsets(ask, [group], stable=False)[group]
    return answer["t-0"][0]


def wait_until_reloaded(ask):
    deadline = time.monotonic() + client.ANSWER_SECONDS
    while client.offsets(ask, ["g"], stable=False)["g"] in (client.LOADING, client.NOT_COORDINATOR):
        assert time.monotonic() < deadline
        time.sleep(0.1)
